// A pair of Service Bus namespaces in two regions, and the function apps that keep sending available.
// No key and no connection string anywhere: everything is reached by managed identities.
targetScope = 'subscription'

@minLength(1)
@maxLength(40)
@description('Name of the azd environment; part of every resource name.')
param environmentName string

@minLength(1)
@description('Region of the primary namespace, the apps and their storage.')
param location string

@minLength(1)
@description('Region of the secondary namespace. An outage of one region must not take both.')
param secondaryLocation string

@allowed(['Standard', 'Premium'])
@description('Tier of both namespaces. The pair is made for Standard; Premium works too.')
param serviceBusTier string = 'Standard'

@description('Queues to create in the primary namespace; entities that exist or come later are served all the same.')
param queueNames array = ['orders']

@description('Whether the syphon runs in an app of its own, as is advised where there are several senders.')
param syphonInOwnApp bool = true

@description('Backlog queues to use.')
param backlogQueueCount string = '10'

@description('Time without a successful send, after a failure that counts, before failover engages (ISO 8601).')
param failoverInterval string = 'PT1M'

@description('How often an unavailable entity is pinged (ISO 8601).')
param pingPrimaryInterval string = 'PT1M'

@description('Whether a failed send goes to the backlog at once, before failover engages.')
param divertWhileSuspect string = 'false'

@description('Instances of the sender that are always there: 0 is cheapest, 1 or more spare callers the cold start.')
param senderAlwaysReady int = 0

@allowed(['PT15M', 'PT30M', 'PT1H'])
@description('How long messages may wait in the backlog before somebody is told.')
param backlogAge string = 'PT30M'

@allowed(['off', 'azure-monitor'])
@description('Whether the app itself sends traces, metrics and events. Off: only what the host passes on of its log.')
param openTelemetry string = 'azure-monitor'

@description('Who is told about alerts; empty: alerts are raised, and nobody gets mail.')
param alertEmail string = ''

var tags = { 'azd-env-name': environmentName }
var token = toLower(uniqueString(subscription().id, environmentName, location))

resource group 'Microsoft.Resources/resourceGroups@2021-04-01' = {
  name: 'rg-${environmentName}'
  location: location
  tags: tags
}

module pair 'pair.bicep' = {
  name: 'pair'
  scope: group
  params: {
    token: token
    tags: tags
    location: location
    secondaryLocation: secondaryLocation
    serviceBusTier: serviceBusTier
    queueNames: queueNames
    syphonInOwnApp: syphonInOwnApp
    senderAlwaysReady: senderAlwaysReady
    alertEmail: alertEmail
    backlogAge: backlogAge
    openTelemetry: openTelemetry
    options: {
      BACKLOG_QUEUE_COUNT: backlogQueueCount
      FAILOVER_INTERVAL: failoverInterval
      PING_PRIMARY_INTERVAL: pingPrimaryInterval
      DIVERT_WHILE_SUSPECT: divertWhileSuspect
    }
  }
}

output AZURE_LOCATION string = location
output SENDER_APP_NAME string = pair.outputs.senderAppName
output SYPHON_APP_NAME string = pair.outputs.syphonAppName
output SENDER_ADDRESS string = pair.outputs.senderAddress
output SYPHON_ADDRESS string = pair.outputs.syphonAddress
output SERVICE_BUS_PRIMARY string = pair.outputs.primaryHost
output SERVICE_BUS_SECONDARY string = pair.outputs.secondaryHost
