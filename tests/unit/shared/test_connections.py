from __future__ import annotations

import pytest
from azure.data.tables import TableServiceClient
from azure.servicebus import ServiceBusClient

from shared.connections import NamespaceConnection, Secret, StateStorage, read_namespace, read_state_storage
from shared.domain.pair import Side
from shared.errors import ConfigurationError

KEY = "c2VjcmV0LW9mLXRoaXMtdGVzdA=="
CONTOSO = "Endpoint=sb://contoso.servicebus.windows.net/"
ACCESS = f"SharedAccessKeyName=Root;SharedAccessKey={KEY}"
EMULATOR = f"Endpoint=sb://localhost:5672;{ACCESS};UseDevelopmentEmulator=true;"
SIGNATURE = "SharedAccessSignature=SharedAccessSignature sr=sb%3A%2F%2Fcontoso&sig=abc%3D&se=1900000000&skn=Root"
CLIENT_ID = "0f8fad5b-d9cb-469f-a165-70867728950e"


def namespace(text: str = "", **identity: str) -> NamespaceConnection:
    named = {f"ServiceBusPrimary__{part}": value for part, value in identity.items()}
    return read_namespace({"ServiceBusPrimary": text, **named}, Side.PRIMARY)


def namespace_problems(text: str = "", **identity: str) -> list[str]:
    with pytest.raises(ConfigurationError) as caught:
        namespace(text, **identity)
    assert KEY not in f"{caught.value!s}{caught.value!r}"
    return [problem.problem for problem in caught.value.problems]


def storage(text: str = "", **identity: str) -> StateStorage:
    named = {f"AzureWebJobsStorage__{part}": value for part, value in identity.items()}
    return read_state_storage({"AzureWebJobsStorage": text, **named})


def storage_problems(text: str = "", **identity: str) -> list[str]:
    with pytest.raises(ConfigurationError) as caught:
        storage(text, **identity)
    assert KEY not in f"{caught.value!s}{caught.value!r}"
    return [problem.problem for problem in caught.value.problems]


def test_a_connection_string_gives_host_name_and_secret() -> None:
    connection = namespace(f"{CONTOSO};{ACCESS}")
    expected = NamespaceConnection(
        setting="ServiceBusPrimary",
        name="contoso",
        host="contoso.servicebus.windows.net",
        connection_string=Secret(f"{CONTOSO};{ACCESS}"),
    )
    assert expected == connection


@pytest.mark.parametrize(
    "text",
    [
        f"{CONTOSO};{ACCESS}",
        EMULATOR,
        EMULATOR.replace("localhost", "[::1]"),
        f"{CONTOSO};{SIGNATURE}",
        f" {CONTOSO} ; {ACCESS} ; ",
    ],
)
def test_the_sdk_accepts_what_is_read(text: str) -> None:
    connection = namespace(text)
    assert connection.connection_string is not None
    client = ServiceBusClient.from_connection_string(connection.connection_string.reveal())
    assert connection.address == client.fully_qualified_namespace


def test_part_names_are_read_without_case_and_written_properly() -> None:
    connection = namespace(
        f"endpoint=sb://contoso.servicebus.windows.net/;sharedaccesskeyname=Root;SHAREDACCESSKEY={KEY}"
    )
    assert Secret(f"{CONTOSO};{ACCESS}") == connection.connection_string


def test_the_local_emulator_is_recognised_with_its_port() -> None:
    connection = namespace(EMULATOR)
    assert ("localhost", 5672, True) == (connection.host, connection.port, connection.emulator)


@pytest.mark.parametrize(
    ("endpoint", "given", "name"),
    [
        ("sb://contoso.servicebus.windows.net/", "", "contoso"),
        ("sb://Contoso.servicebus.windows.net/", "", "contoso"),
        ("sb://localhost:5672", "", "primary"),
        ("sb://127.0.0.1:5672", "", "primary"),
        ("sb://[::1]:5672", "", "primary"),
        ("sb://broker:5672", "", "primary"),
        ("sb://localhost:5672", "Contoso", "contoso"),
        ("sb://alias.servicebus.windows.net/", "contoso", "contoso"),
    ],
)
def test_the_name_is_the_one_given_or_the_hosts_first_label_or_the_side(endpoint: str, given: str, name: str) -> None:
    env = {"ServiceBusPrimary": f"Endpoint={endpoint};{ACCESS}", "PRIMARY_NAMESPACE_NAME": given}
    assert name == read_namespace(env, Side.PRIMARY).name


@pytest.mark.parametrize(
    "env", [{"PRIMARY_NAMESPACE_NAME": "con/toso"}, {"ServiceBusPrimary": f"Endpoint=sb://{'a' * 60}.net"}]
)
def test_a_name_that_cannot_stand_in_a_queue_path_is_refused(env: dict[str, str]) -> None:
    text = f"{env.pop('ServiceBusPrimary', CONTOSO)};{ACCESS}"
    with pytest.raises(
        ConfigurationError, match=r"^PRIMARY_NAMESPACE_NAME: .*example: PRIMARY_NAMESPACE_NAME=contoso$"
    ):
        read_namespace({"ServiceBusPrimary": text, **env}, Side.PRIMARY)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (CONTOSO, ["no SharedAccessKeyName", "no SharedAccessKey"]),
        (f"{CONTOSO};SharedAccessKeyName=Root", ["no SharedAccessKey"]),
        (f"{CONTOSO};SharedAccessKey={KEY}", ["no SharedAccessKeyName"]),
        (f"{CONTOSO};SharedAccessKeyName=Root;SharedAccessKey=", ["empty SharedAccessKey"]),
        (ACCESS, ["no Endpoint"]),
        (f"Endpoint=;{ACCESS}", ["empty Endpoint"]),
        (f"{CONTOSO};{CONTOSO};{ACCESS}", ["Endpoint twice"]),
        (f"{CONTOSO};{ACCESS};EntityPath=orders", ["EntityPath ties it to one entity"]),
        (f"{CONTOSO};{ACCESS};OperationTimeout=1", ["part OperationTimeout of the connection string is not known"]),
        (f"{CONTOSO};{ACCESS};oops", ["part number 4 of the connection string is not known"]),
        (KEY, ["part number 1", "no SharedAccessKeyName", "no SharedAccessKey", "no Endpoint"]),
        (f"{CONTOSO};{ACCESS};UseDevelopmentEmulator=True", ["UseDevelopmentEmulator is true or false"]),
        (f"{CONTOSO};{ACCESS};{SIGNATURE}", ["both there"]),
        (f"{CONTOSO};SharedAccessSignature={KEY}", ["does not begin with"]),
        (f"Endpoint=https://contoso.servicebus.windows.net/;{ACCESS}", ["not of the form"]),
        (f"Endpoint=contoso.servicebus.windows.net;{ACCESS}", ["not of the form"]),
        (f"Endpoint=sb://contoso.servicebus.windows.net/orders;{ACCESS}", ["not of the form"]),
        (f"Endpoint=sb://contoso.servicebus.windows.net:port;{ACCESS}", ["not of the form"]),
        (f"Endpoint=sb://localhost:0;{ACCESS}", ["not of the form"]),
        (f"Endpoint=sb://root:{KEY}@localhost;{ACCESS}", ["not of the form"]),
    ],
)
def test_what_is_wrong_with_a_connection_string_is_named(text: str, expected: list[str]) -> None:
    found = namespace_problems(text)
    assert len(expected) == len(found)
    assert all(part in problem for part, problem in zip(expected, found, strict=True))


def test_identity_needs_only_the_namespace() -> None:
    expected = NamespaceConnection(
        setting="ServiceBusPrimary", name="contoso", host="contoso.servicebus.windows.net", client_id=None
    )
    assert expected == namespace(fullyQualifiedNamespace="contoso.servicebus.windows.net")


def test_identity_takes_a_port_for_a_broker_of_ones_own() -> None:
    connection = namespace(fullyQualifiedNamespace="localhost:5672")
    assert ("primary", "localhost", 5672) == (connection.name, connection.host, connection.port)
    assert "localhost:5672" == connection.address


def test_identity_takes_a_client_id() -> None:
    connection = namespace(
        fullyQualifiedNamespace="contoso.servicebus.windows.net", clientId=CLIENT_ID, credential="managedidentity"
    )
    assert (CLIENT_ID, None) == (connection.client_id, connection.connection_string)


@pytest.mark.parametrize(
    ("identity", "expected"),
    [
        ({"clientId": CLIENT_ID}, ["not set"]),
        ({"fullyQualifiedNamespace": "sb://contoso.servicebus.windows.net/"}, ["not a host name"]),
        ({"fullyQualifiedNamespace": "contoso"}, ["not a host name"]),
        ({"fullyQualifiedNamespace": "contoso:5672"}, ["not a host name"]),
        ({"fullyQualifiedNamespace": "localhost:"}, ["not a host name"]),
        ({"fullyQualifiedNamespace": "localhost:0"}, ["not a host name"]),
        ({"fullyQualifiedNamespace": "localhost:65536"}, ["not a host name"]),
        ({"fullyQualifiedNamespace": "127.0.0.1:5672"}, ["not a host name"]),
        ({"fullyQualifiedNamespace": "contoso.net", "clientId": "me"}, ["a client id is a UUID"]),
        (
            {"fullyQualifiedNamespace": "contoso.net", "credential": "workloadidentity"},
            ["the only credential supported"],
        ),
        ({"fullyQualifiedNamespace": "contoso.net", "clientSecret": KEY}, ["this part is not supported"]),
    ],
)
def test_what_is_wrong_with_an_identity_is_named(identity: dict[str, str], expected: list[str]) -> None:
    found = namespace_problems(**identity)
    assert expected == [problem[: len(start)] for start, problem in zip(expected, found, strict=True)]


def test_a_string_and_an_identity_at_once_are_refused() -> None:
    (problem,) = namespace_problems(f"{CONTOSO};{ACCESS}", fullyQualifiedNamespace="contoso.servicebus.windows.net")
    assert "keep one of them" in problem


def test_storage_of_the_pair_wins_over_that_of_the_host() -> None:
    env = {"PairStateStorage__accountName": "pairstate", "AzureWebJobsStorage": "UseDevelopmentStorage=true"}
    assert "PairStateStorage" == read_state_storage(env).setting
    del env["PairStateStorage__accountName"]
    assert "AzureWebJobsStorage" == read_state_storage(env).setting


@pytest.mark.parametrize(
    ("text", "endpoint"),
    [
        ("UseDevelopmentStorage=true", "http://127.0.0.1:10002/devstoreaccount1"),
        ("usedevelopmentstorage=True;", "http://127.0.0.1:10002/devstoreaccount1"),
        (f"AccountName=contoso;AccountKey={KEY}", "https://contoso.table.core.windows.net"),
        (
            f"DefaultEndpointsProtocol=https;AccountName=contoso;AccountKey={KEY};EndpointSuffix=core.chinacloudapi.cn",
            "https://contoso.table.core.chinacloudapi.cn",
        ),
        (
            f"AccountName=devstoreaccount1;AccountKey={KEY};TableEndpoint=http://127.0.0.1:4711/devstoreaccount1",
            "http://127.0.0.1:4711/devstoreaccount1",
        ),
        (
            "TableEndpoint=https://contoso.table.core.windows.net;SharedAccessSignature=sv=2019&sig=abc",
            "https://contoso.table.core.windows.net",
        ),
    ],
)
def test_the_sdk_finds_the_same_tables_as_the_settings(text: str, endpoint: str) -> None:
    found = storage(text)
    assert found.connection_string is not None
    with TableServiceClient.from_connection_string(found.connection_string.reveal()) as client:
        assert (endpoint, endpoint) == (found.table_endpoint, client.url)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", ["not set"]),
        ("UseDevelopmentStorage=false", ["UseDevelopmentStorage=true stands alone"]),
        (f"UseDevelopmentStorage=true;AccountKey={KEY}", ["UseDevelopmentStorage=true stands alone"]),
        ("AccountName=contoso", ["the connection string has neither AccountKey nor SharedAccessSignature"]),
        (f"AccountKey={KEY}", ["the connection string has no AccountName"]),
        ("AccountName=contoso;AccountKey=not base64", ["its AccountKey is not base64"]),
        (f"AccountName=Contoso!;AccountKey={KEY}", ["its AccountName is not"]),
        (f"AccountName=contoso;AccountKey={KEY};SharedAccessSignature=sv=1&sig=2", ["an AccountKey and a Shared"]),
        (f"AccountName=contoso;AccountKey={KEY};DefaultEndpointsProtocol=ftp", ["its DefaultEndpointsProtocol"]),
        (f"AccountName=contoso;AccountKey={KEY};TableEndpoint=contoso", ["its TableEndpoint"]),
        (f"AccountName=contoso;AccountKey={KEY};EndpointSuffix=a/b", ["its EndpointSuffix"]),
    ],
)
def test_what_is_wrong_with_a_storage_string_is_named(text: str, expected: list[str]) -> None:
    found = storage_problems(text)
    assert expected == [problem[: len(start)] for start, problem in zip(expected, found, strict=True)]


@pytest.mark.parametrize(
    ("identity", "endpoint", "blobs"),
    [
        (
            {"tableServiceUri": "https://contoso.table.core.windows.net"},
            "https://contoso.table.core.windows.net",
            "https://contoso.blob.core.windows.net",
        ),
        (
            {"accountName": "contoso"},
            "https://contoso.table.core.windows.net",
            "https://contoso.blob.core.windows.net",
        ),
        (
            {"accountName": "contoso", "blobServiceUri": "https://b", "queueServiceUri": "https://q"},
            "https://contoso.table.core.windows.net",
            "https://b",
        ),
        ({"tableServiceUri": "https://tables.example"}, "https://tables.example", None),
    ],
)
def test_storage_by_identity(identity: dict[str, str], endpoint: str, blobs: str | None) -> None:
    found = storage(**identity, clientId=CLIENT_ID)
    expected = StateStorage(
        setting="AzureWebJobsStorage", table_endpoint=endpoint, blob_endpoint=blobs, client_id=CLIENT_ID
    )
    assert expected == found


@pytest.mark.parametrize(
    ("identity", "expected"),
    [
        ({"blobServiceUri": "https://contoso.blob.core.windows.net"}, ["not set, and __accountName neither"]),
        ({"tableServiceUri": "contoso"}, ["not of the form https://host/"]),
        ({"accountName": "Contoso"}, ["not 3 to 24 lower-case letters and digits"]),
        ({"accountName": "contoso", "tenantId": CLIENT_ID}, ["this part is not supported"]),
    ],
)
def test_what_is_wrong_with_storage_by_identity_is_named(identity: dict[str, str], expected: list[str]) -> None:
    found = storage_problems(**identity)
    assert expected == [problem[: len(start)] for start, problem in zip(expected, found, strict=True)]


def test_a_storage_string_and_an_identity_at_once_are_refused() -> None:
    (problem,) = storage_problems("UseDevelopmentStorage=true", accountName="contoso")
    assert "keep one of them" in problem


def test_a_secret_shows_itself_only_when_asked() -> None:
    secret = Secret(KEY)
    assert KEY == secret.reveal()
    assert KEY not in f"{secret} {secret!r} {[secret]} {namespace(f'{CONTOSO};{ACCESS}')}"
    assert Secret(KEY) == secret
    assert Secret("other") != secret
