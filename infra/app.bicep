// One function app on a Flex Consumption plan. Its settings decide whether it sends only or hosts the syphon as well.
param name string
param serviceName string
param location string
param tags object
param enableSyphon bool
param taskHub string
param identityId string
param clientId string
param storageName string
param containerName string
param telemetryContainer string
param primaryHost string
param secondaryHost string
param insightsConnectionString string
param openTelemetry string
param options object
param httpAlwaysReady int
param maximumInstances int

var blobAddress = 'https://${storageName}.blob.${environment().suffixes.storage}'
var queueAddress = 'https://${storageName}.queue.${environment().suffixes.storage}'
var tableAddress = 'https://${storageName}.table.${environment().suffixes.storage}'

// Everything the app and its host read. Each option of shared/settings.py is here; a test names what is missing.
var settings = {
  AzureWebJobsStorage__blobServiceUri: blobAddress
  AzureWebJobsStorage__queueServiceUri: queueAddress
  AzureWebJobsStorage__tableServiceUri: tableAddress
  AzureWebJobsStorage__credential: 'managedidentity'
  AzureWebJobsStorage__clientId: clientId
  ServiceBusPrimary__fullyQualifiedNamespace: primaryHost
  ServiceBusPrimary__credential: 'managedidentity'
  ServiceBusPrimary__clientId: clientId
  ServiceBusSecondary__fullyQualifiedNamespace: secondaryHost
  ServiceBusSecondary__credential: 'managedidentity'
  ServiceBusSecondary__clientId: clientId
  APPLICATIONINSIGHTS_CONNECTION_STRING: insightsConnectionString
  APPLICATIONINSIGHTS_AUTHENTICATION_STRING: 'ClientId=${clientId};Authorization=AAD'
  // Two apps on one storage account must not share a task hub.
  AzureFunctionsJobHost__extensions__durableTask__hubName: taskHub
  BACKLOG_QUEUE_COUNT: options.BACKLOG_QUEUE_COUNT
  BACKLOG_PARTITIONED: 'false'
  FAILOVER_INTERVAL: options.FAILOVER_INTERVAL
  PING_PRIMARY_INTERVAL: options.PING_PRIMARY_INTERVAL
  PING_SUCCESSES: '1'
  PING_ALL_PARTITIONS: 'true'
  ENABLE_SYPHON: enableSyphon ? 'true' : 'false'
  SYPHON_RATE_LIMIT: '0'
  SYPHON_RESTART_TIME_TO_LIVE: 'false'
  PARTNER_GRACE: 'PT5S'
  SEND_DEADLINE: 'PT30S'
  PRIMARY_ATTEMPT_TIMEOUT: 'PT5S'
  PRIMARY_ATTEMPT_TIMEOUT_PARTITIONED: 'PT20S'
  DIVERT_WHILE_SUSPECT: options.DIVERT_WHILE_SUSPECT
  STATE_REFRESH: 'PT2S'
  // Records of every event go to blob storage, for the delivery report; no instance has a folder that stays.
  TELEMETRY_FOLDER: ''
  TELEMETRY_CONTAINER: telemetryContainer
  TELEMETRY_ROTATE_INTERVAL: 'PT1M'
  TELEMETRY_ROTATE_BYTES: '33554432'
  TELEMETRY_BUFFER_EVENTS: '100000'
  OPEN_TELEMETRY: openTelemetry
  // Of traces that nobody upstream has decided on, a share; metrics and events are whole.
  OTEL_TRACES_SAMPLER: 'parentbased_traceidratio'
  OTEL_TRACES_SAMPLER_ARG: '0.05'
  // The exporter's reports about itself and its remote control stay off: nothing comes or goes that is not in this file.
  APPLICATIONINSIGHTS_STATSBEAT_DISABLED_ALL: 'true'
  APPLICATIONINSIGHTS_SDKSTATS_DISABLED: 'true'
  APPLICATIONINSIGHTS_CONTROLPLANE_DISABLED: 'true'
}

// A Flex Consumption plan holds one app.
resource plan 'Microsoft.Web/serverfarms@2024-04-01' = {
  name: 'plan-${name}'
  location: location
  tags: tags
  kind: 'functionapp'
  sku: {
    name: 'FC1'
    tier: 'FlexConsumption'
  }
  properties: {
    reserved: true
  }
}

resource app 'Microsoft.Web/sites@2024-04-01' = {
  name: name
  location: location
  tags: union(tags, { 'azd-service-name': serviceName })
  kind: 'functionapp,linux'
  identity: {
    type: 'UserAssigned'
    userAssignedIdentities: {
      '${identityId}': {}
    }
  }
  properties: {
    serverFarmId: plan.id
    httpsOnly: true
    siteConfig: {
      minTlsVersion: '1.2'
      appSettings: [for setting in items(settings): {
        name: setting.key
        value: setting.value
      }]
    }
    functionAppConfig: {
      deployment: {
        storage: {
          type: 'blobContainer'
          value: '${blobAddress}/${containerName}'
          authentication: {
            type: 'UserAssignedIdentity'
            userAssignedIdentityResourceId: identityId
          }
        }
      }
      runtime: {
        name: 'python'
        version: '3.11'
      }
      scaleAndConcurrency: {
        maximumInstanceCount: maximumInstances
        instanceMemoryMB: 2048
        alwaysReady: httpAlwaysReady > 0 ? [
          {
            name: 'http'
            instanceCount: httpAlwaysReady
          }
        ] : []
        triggers: {
          http: {
            // Python's own default is one request at a time; sends wait for the network and share batches.
            perInstanceConcurrency: 100
          }
        }
      }
    }
  }
}

output name string = app.name
output address string = 'https://${app.properties.defaultHostName}'
