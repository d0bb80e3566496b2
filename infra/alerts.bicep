// What an operator must hear of. docs/operating.md says what each alert means and what to do about it.
param token string
param location string
param tags object
param workspaceId string
param primaryNamespaceId string
param secondaryNamespaceId string
param email string

param backlogAge string

resource people 'Microsoft.Insights/actionGroups@2023-01-01' = if (!empty(email)) {
  name: 'ag-${token}'
  location: 'global'
  tags: tags
  properties: {
    groupShortName: 'pair'
    enabled: true
    emailReceivers: [
      {
        name: 'operators'
        emailAddress: email
        useCommonAlertSchema: true
      }
    ]
  }
}

var actionGroupIds = empty(email) ? [] : [people.id]

// Each event is a line of the log, or a log record of OpenTelemetry: its name, then its fields as JSON.
var logAlerts = [
  {
    name: 'entity-unavailable'
    severity: 1
    description: 'An entity of the primary became unavailable: messages to it wait in the backlog.'
    query: 'AppTraces | where Message startswith "availability.changed " and Message contains "\\"after\\": \\"unavailable\\""'
  }
  {
    name: 'pair-down'
    severity: 0
    description: 'A side of the pair was closed or faulted; when both are, sends are refused.'
    query: 'AppTraces | where Message startswith "factory.changed " and Message !contains "\\"after\\": \\"open\\""'
  }
  {
    name: 'credentials-refused'
    severity: 1
    description: 'A namespace refused the identity of an app.'
    query: 'AppTraces | where Message startswith "credentials.refused "'
  }
  {
    name: 'events-dropped'
    severity: 2
    description: 'Telemetry events were dropped: the delivery report has a gap and says so.'
    query: 'AppTraces | where Message startswith "telemetry.dropped "'
  }
]

resource logRules 'Microsoft.Insights/scheduledQueryRules@2022-06-15' = [for alert in logAlerts: {
  name: '${alert.name}-${token}'
  location: location
  tags: tags
  kind: 'LogAlert'
  properties: {
    displayName: alert.name
    description: alert.description
    severity: alert.severity
    enabled: true
    scopes: [workspaceId]
    evaluationFrequency: 'PT5M'
    windowSize: 'PT5M'
    autoMitigate: true
    // Tables of a workspace appear with their first row; a rule may come before them.
    skipQueryValidation: true
    criteria: {
      allOf: [
        {
          query: alert.query
          timeAggregation: 'Count'
          operator: 'GreaterThan'
          threshold: 0
          failingPeriods: {
            numberOfEvaluationPeriods: 1
            minFailingPeriodsToAlert: 1
          }
        }
      ]
    }
    actions: {
      actionGroups: actionGroupIds
    }
  }
}]

// There is no metric for age. A queue that was not empty at any moment of the window holds messages that old, or drains
// more slowly than it fills; both are worth a look.
var metricAlerts = [
  {
    name: 'backlog-old'
    severity: 2
    description: 'Messages have been waiting in the backlog all the time.'
    namespaceId: secondaryNamespaceId
    metric: 'ActiveMessages'
    aggregation: 'Minimum'
    window: backlogAge
  }
  {
    name: 'backlog-dead-letters'
    severity: 1
    description: 'A backlog message cannot be delivered: it is in the dead-letter queue of its backlog queue.'
    namespaceId: secondaryNamespaceId
    metric: 'DeadletteredMessages'
    aggregation: 'Maximum'
    window: 'PT5M'
  }
  {
    name: 'primary-server-errors'
    severity: 2
    description: 'The primary namespace answers with errors of its own.'
    namespaceId: primaryNamespaceId
    metric: 'ServerErrors'
    aggregation: 'Total'
    window: 'PT5M'
  }
]

resource metricRules 'Microsoft.Insights/metricAlerts@2018-03-01' = [for alert in metricAlerts: {
  name: '${alert.name}-${token}'
  location: 'global'
  tags: tags
  properties: {
    description: alert.description
    severity: alert.severity
    enabled: true
    scopes: [alert.namespaceId]
    evaluationFrequency: 'PT5M'
    windowSize: alert.window
    autoMitigate: true
    criteria: {
      'odata.type': 'Microsoft.Azure.Monitor.SingleResourceMultipleMetricCriteria'
      allOf: [
        {
          name: alert.name
          criterionType: 'StaticThresholdCriterion'
          metricNamespace: 'Microsoft.ServiceBus/namespaces'
          metricName: alert.metric
          timeAggregation: alert.aggregation
          operator: 'GreaterThan'
          threshold: 0
          dimensions: [
            {
              name: 'EntityName'
              operator: 'Include'
              values: ['*']
            }
          ]
        }
      ]
    }
    actions: [for actionGroupId in actionGroupIds: {
      actionGroupId: actionGroupId
    }]
  }
}]
