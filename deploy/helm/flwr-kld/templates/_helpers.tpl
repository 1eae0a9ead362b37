{{/* Labels by which pods are selected; with `component` of one kind. */}}
{{- define "kld.selector" -}}
app.kubernetes.io/name: flwr-kld
app.kubernetes.io/instance: {{ .root.Release.Name }}
{{- with .component }}
app.kubernetes.io/component: {{ . }}
{{- end }}
{{- with .part }}
flwr-kld/node: {{ . }}
{{- end }}
{{- end }}

{{- define "kld.labels" -}}
{{ include "kld.selector" . }}
app.kubernetes.io/version: {{ .root.Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .root.Release.Service }}
{{- end }}

{{/* Of every pod. fsGroup opens new volumes to the group; keys are copied with a mode of their own. */}}
{{- define "kld.pod" -}}
automountServiceAccountToken: false
enableServiceLinks: false
securityContext:
  runAsNonRoot: true
  runAsUser: 10001
  fsGroup: 10001
  fsGroupChangePolicy: OnRootMismatch
  seccompProfile: {type: RuntimeDefault}
{{- end }}

{{- define "kld.container" -}}
securityContext:
  allowPrivilegeEscalation: false
  capabilities: {drop: [ALL]}
{{- end }}

{{- define "kld.ledger" -}}
- name: FLWR_KLD_LEDGER
  valueFrom:
    secretKeyRef: {name: {{ .Values.ledger.secret }}, key: url}
{{- end }}

{{- define "kld.disk" -}}
- metadata: {name: state}
  spec:
    accessModes: [ReadWriteOnce]
    resources:
      requests: {storage: {{ . }}}
{{- end }}
