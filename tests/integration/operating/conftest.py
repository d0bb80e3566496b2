from tests.support.send_fixtures import pair, storage

__all__ = ["pair", "storage"]
