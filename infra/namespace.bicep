// One namespace that takes tokens only, and who may do what in it.
param name string
param location string
param tags object
param tier string
param queueNames array
param senderPrincipalIds array
param ownerPrincipalIds array

// Azure Service Bus Data Sender, Azure Service Bus Data Owner.
var senderRole = '69a216fc-b8fb-44d8-bc22-1f3c2cd27a39'
var ownerRole = '090c5cfd-751d-490a-894a-3ce6f1109419'

resource namespace 'Microsoft.ServiceBus/namespaces@2024-01-01' = {
  name: name
  location: location
  tags: tags
  sku: {
    name: tier
    tier: tier
  }
  properties: {
    disableLocalAuth: true
    minimumTlsVersion: '1.2'
    publicNetworkAccess: 'Enabled'
  }
}

resource queues 'Microsoft.ServiceBus/namespaces/queues@2024-01-01' = [for queueName in queueNames: {
  parent: namespace
  name: queueName
  properties: {
    maxDeliveryCount: 10
    deadLetteringOnMessageExpiration: true
  }
}]

resource senders 'Microsoft.Authorization/roleAssignments@2022-04-01' = [for principalId in senderPrincipalIds: {
  name: guid(namespace.id, principalId, senderRole)
  scope: namespace
  properties: {
    principalId: principalId
    principalType: 'ServicePrincipal'
    roleDefinitionId: subscriptionResourceId('Microsoft.Authorization/roleDefinitions', senderRole)
  }
}]

resource owners 'Microsoft.Authorization/roleAssignments@2022-04-01' = [for principalId in ownerPrincipalIds: {
  name: guid(namespace.id, principalId, ownerRole)
  scope: namespace
  properties: {
    principalId: principalId
    principalType: 'ServicePrincipal'
    roleDefinitionId: subscriptionResourceId('Microsoft.Authorization/roleDefinitions', ownerRole)
  }
}]

output id string = namespace.id
output host string = '${namespace.name}.servicebus.windows.net'
