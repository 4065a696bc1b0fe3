{{- define "svc.name" -}}
{{- if .Values.fullnameOverride -}}
{{- .Values.fullnameOverride | trunc 40 | trimSuffix "-" -}}
{{- else -}}
{{- $name := default .Chart.Name .Values.nameOverride -}}
{{- ternary .Release.Name (printf "%s-%s" .Release.Name $name) (contains $name .Release.Name) | trunc 40 | trimSuffix "-" -}}
{{- end -}}
{{- end -}}

{{/* The labels that select the pods of a component. Arguments: root, component. */}}
{{- define "svc.selector" -}}
app.kubernetes.io/name: {{ .root.Chart.Name }}
app.kubernetes.io/instance: {{ .root.Release.Name }}
app.kubernetes.io/component: {{ .component }}
{{- end -}}

{{- define "svc.labels" -}}
{{ include "svc.selector" . }}
app.kubernetes.io/version: {{ .root.Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .root.Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .root.Chart.Name .root.Chart.Version }}
{{- end -}}

{{/* Arguments: root, image. */}}
{{- define "svc.image" -}}
image: {{ printf "%s:%s" .image.repository (.image.tag | default .root.Chart.AppVersion) | quote }}
imagePullPolicy: {{ .image.pullPolicy }}
{{- end -}}

{{/* Settings of every pod. Arguments: root, values (of the component). */}}
{{- define "svc.pod" -}}
automountServiceAccountToken: false
enableServiceLinks: false
{{- with .root.Values.imagePullSecrets }}
imagePullSecrets:
  {{- range . }}
  - name: {{ . }}
  {{- end }}
{{- end }}
{{- with .values.priorityClassName }}
priorityClassName: {{ . }}
{{- end }}
{{- with .values.nodeSelector }}
nodeSelector: {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .values.tolerations }}
tolerations: {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .values.affinity }}
affinity: {{- toYaml . | nindent 2 }}
{{- end }}
{{- end -}}

{{/* Spreads the pods of one version of a component over nodes. Arguments: root, component, revision (the label). */}}
{{- define "svc.spread" -}}
topologySpreadConstraints:
  {{- range .root.Values.spreadOver }}
  - topologyKey: {{ . }}
    maxSkew: 1
    whenUnsatisfiable: ScheduleAnyway
    matchLabelKeys: [{{ $.revision }}]
    labelSelector:
      matchLabels: {{- include "svc.selector" $ | nindent 8 }}
  {{- end }}
{{- end -}}

{{/*
Optional argument: userNamespace, if the pod has one and creates processes of other users in it. Its capabilities have no
effect outside of it.
*/}}
{{- define "svc.container.security" -}}
securityContext:
  allowPrivilegeEscalation: false
  readOnlyRootFilesystem: true
  {{- if .userNamespace }}
  capabilities: {drop: [ALL], add: [CHOWN, DAC_OVERRIDE, FOWNER, KILL, SETFCAP, SETGID, SETUID]}
  procMount: Unmasked
  {{- else }}
  capabilities: {drop: [ALL]}
  {{- end }}
{{- end -}}

{{/* Variables from a map. */}}
{{- define "svc.env" -}}
{{- range $name, $value := . }}
- name: {{ $name }}
  value: {{ $value | quote }}
{{- end }}
{{- end -}}

{{- define "svc.cloud.secret" -}}
{{- .Values.cloud.existingSecret | default (printf "%s-cloud" (include "svc.name" .)) -}}
{{- end -}}

{{- define "svc.database.secret" -}}
{{- if .Values.postgresql.enabled -}}
{{- printf "%s-postgresql" (include "svc.name" .) -}}
{{- else -}}
{{- required "Set database.existingSecret to a Secret with the URL of the database, or postgresql.enabled=true for a trial." .Values.database.existingSecret -}}
{{- end -}}
{{- end -}}

{{/* The variables that every command of svc-cloud needs. */}}
{{- define "svc.cloud.env" -}}
- name: DATABASE_URL
  valueFrom:
    secretKeyRef:
      name: {{ include "svc.database.secret" . }}
      key: {{ ternary "DATABASE_URL" .Values.database.key .Values.postgresql.enabled }}
- name: SECRET_KEYS
  valueFrom:
    secretKeyRef: {name: {{ include "svc.cloud.secret" . }}, key: SECRET_KEYS}
- name: PUBLIC_URL
  value: {{ .Values.cloud.publicUrl | quote }}
- name: DATA_DIR
  value: /data
{{- include "svc.env" .Values.cloud.env }}
{{- end -}}

{{/*
A value of a Secret that was generated at the first installation: the present one, or the default. Arguments: root, name,
key, default.
*/}}
{{- define "svc.keep" -}}
{{- $present := lookup "v1" "Secret" .root.Release.Namespace .name -}}
{{- if and $present $present.data (hasKey $present.data .key) -}}
{{- index $present.data .key -}}
{{- else -}}
{{- .default | b64enc -}}
{{- end -}}
{{- end -}}

{{- define "svc.worker.autoscaled" -}}
{{- if or .Values.worker.autoscaling.keda.enabled .Values.worker.autoscaling.hpa.enabled -}}true{{- end -}}
{{- end -}}

{{/* The sessions of workers that stay, and the reserve: divided by worker.sessions it is the number of workers to run. */}}
{{- define "svc.worker.wanted" -}}
{{- $labels := printf "namespace=%q,service=%q" .Release.Namespace (printf "%s-worker" (include "svc.name" .)) -}}
sum(svc_worker_sessions{ {{- $labels -}} } unless on (namespace, pod) (svc_worker_draining{ {{- $labels -}} } == 1)) + {{ .Values.worker.autoscaling.freeSessions }}
{{- end -}}
