// Everything of one pair, in one resource group.
param token string
param tags object
param location string
param secondaryLocation string
param serviceBusTier string
param queueNames array
param syphonInOwnApp bool
param senderAlwaysReady int
param alertEmail string
param backlogAge string
param openTelemetry string
param options object

var telemetryContainer = 'telemetry'

// An app that hosts the syphon needs more rights than one that only sends, so each has an identity of its own.
resource senderIdentity 'Microsoft.ManagedIdentity/userAssignedIdentities@2023-01-31' = {
  name: 'id-sender-${token}'
  location: location
  tags: tags
}

resource syphonIdentity 'Microsoft.ManagedIdentity/userAssignedIdentities@2023-01-31' = {
  name: 'id-syphon-${token}'
  location: location
  tags: tags
}

module primary 'namespace.bicep' = {
  name: 'primary'
  params: {
    name: 'sb-primary-${token}'
    location: location
    tags: tags
    tier: serviceBusTier
    queueNames: queueNames
    senderPrincipalIds: [senderIdentity.properties.principalId, syphonIdentity.properties.principalId]
    ownerPrincipalIds: []
  }
}

// The app creates the backlog queues itself. An app without a syphon only sends to them.
module secondary 'namespace.bicep' = {
  name: 'secondary'
  params: {
    name: 'sb-secondary-${token}'
    location: secondaryLocation
    tags: tags
    tier: serviceBusTier
    queueNames: []
    senderPrincipalIds: syphonInOwnApp ? [senderIdentity.properties.principalId] : []
    ownerPrincipalIds: [syphonIdentity.properties.principalId]
  }
}

module storage 'storage.bicep' = {
  name: 'storage'
  params: {
    name: 'st${token}'
    location: location
    tags: tags
    containerNames: ['deploy-sender', 'deploy-syphon', telemetryContainer]
    principalIds: [senderIdentity.properties.principalId, syphonIdentity.properties.principalId]
  }
}

module monitoring 'monitoring.bicep' = {
  name: 'monitoring'
  params: {
    token: token
    location: location
    tags: tags
    principalIds: [senderIdentity.properties.principalId, syphonIdentity.properties.principalId]
  }
}

module alerts 'alerts.bicep' = {
  name: 'alerts'
  params: {
    token: token
    location: location
    tags: tags
    workspaceId: monitoring.outputs.workspaceId
    primaryNamespaceId: primary.outputs.id
    secondaryNamespaceId: secondary.outputs.id
    email: alertEmail
    backlogAge: backlogAge
  }
}

// One app alone does everything with the syphon's identity; two apps share the work.
module sender 'app.bicep' = {
  name: 'sender'
  params: {
    name: 'func-sender-${token}'
    serviceName: 'sender'
    location: location
    tags: tags
    enableSyphon: !syphonInOwnApp
    taskHub: 'PairedNamespacesSender'
    identityId: syphonInOwnApp ? senderIdentity.id : syphonIdentity.id
    clientId: syphonInOwnApp ? senderIdentity.properties.clientId : syphonIdentity.properties.clientId
    storageName: storage.outputs.name
    containerName: 'deploy-sender'
    telemetryContainer: telemetryContainer
    primaryHost: primary.outputs.host
    secondaryHost: secondary.outputs.host
    insightsConnectionString: monitoring.outputs.connectionString
    openTelemetry: openTelemetry
    options: options
    httpAlwaysReady: senderAlwaysReady
    maximumInstances: 100
  }
}

module syphon 'app.bicep' = if (syphonInOwnApp) {
  name: 'syphon'
  params: {
    name: 'func-syphon-${token}'
    serviceName: 'syphon'
    location: location
    tags: tags
    enableSyphon: true
    taskHub: 'PairedNamespacesSyphon'
    identityId: syphonIdentity.id
    clientId: syphonIdentity.properties.clientId
    storageName: storage.outputs.name
    containerName: 'deploy-syphon'
    telemetryContainer: telemetryContainer
    primaryHost: primary.outputs.host
    secondaryHost: secondary.outputs.host
    insightsConnectionString: monitoring.outputs.connectionString
    openTelemetry: openTelemetry
    options: options
    httpAlwaysReady: 0
    maximumInstances: 40
  }
}

output senderAppName string = sender.outputs.name
output syphonAppName string = syphonInOwnApp ? 'func-syphon-${token}' : sender.outputs.name
output senderAddress string = sender.outputs.address
output syphonAddress string = syphonInOwnApp ? syphon.outputs.address : sender.outputs.address
output primaryHost string = primary.outputs.host
output secondaryHost string = secondary.outputs.host
