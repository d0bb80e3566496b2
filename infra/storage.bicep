// Storage of the apps: their packages and leases, the durable task hubs, and the pair's state. Keys are disabled.
param name string
param location string
param tags object
param containerNames array
param principalIds array

// Storage Blob Data Owner, Storage Queue Data Contributor, Storage Table Data Contributor.
var blobRole = 'b7e6dc6d-f1e8-4753-8033-0f276bb0955b'
var queueRole = '974c5e8b-45b9-4653-ba55-5f855dd0fb88'
var tableRole = '0a9a7e1f-b9d0-4cc4-a60d-0319b160aaa3'

resource account 'Microsoft.Storage/storageAccounts@2023-05-01' = {
  name: name
  location: location
  tags: tags
  kind: 'StorageV2'
  sku: {
    // The pair's state must survive the loss of a zone: it is needed when something else has failed already.
    name: 'Standard_ZRS'
  }
  properties: {
    allowSharedKeyAccess: false
    allowBlobPublicAccess: false
    minimumTlsVersion: 'TLS1_2'
    supportsHttpsTrafficOnly: true
    defaultToOAuthAuthentication: true
    publicNetworkAccess: 'Enabled'
  }
}

resource blobs 'Microsoft.Storage/storageAccounts/blobServices@2023-05-01' = {
  parent: account
  name: 'default'
}

resource containers 'Microsoft.Storage/storageAccounts/blobServices/containers@2023-05-01' = [for containerName in containerNames: {
  parent: blobs
  name: containerName
  properties: {
    publicAccess: 'None'
  }
}]

resource blobOwners 'Microsoft.Authorization/roleAssignments@2022-04-01' = [for principalId in principalIds: {
  name: guid(account.id, principalId, blobRole)
  scope: account
  properties: {
    principalId: principalId
    principalType: 'ServicePrincipal'
    roleDefinitionId: subscriptionResourceId('Microsoft.Authorization/roleDefinitions', blobRole)
  }
}]

resource queueContributors 'Microsoft.Authorization/roleAssignments@2022-04-01' = [for principalId in principalIds: {
  name: guid(account.id, principalId, queueRole)
  scope: account
  properties: {
    principalId: principalId
    principalType: 'ServicePrincipal'
    roleDefinitionId: subscriptionResourceId('Microsoft.Authorization/roleDefinitions', queueRole)
  }
}]

resource tableContributors 'Microsoft.Authorization/roleAssignments@2022-04-01' = [for principalId in principalIds: {
  name: guid(account.id, principalId, tableRole)
  scope: account
  properties: {
    principalId: principalId
    principalType: 'ServicePrincipal'
    roleDefinitionId: subscriptionResourceId('Microsoft.Authorization/roleDefinitions', tableRole)
  }
}]

output name string = account.name
