{{- define "roamcard.name" -}}
{{ .Release.Name | trunc 50 | trimSuffix "-" }}
{{- end }}

{{- define "roamcard.labels" -}}
app.kubernetes.io/name: roamcard
app.kubernetes.io/instance: {{ .Release.Name }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
{{- end }}

{{- define "roamcard.selector" -}}
app.kubernetes.io/name: roamcard
app.kubernetes.io/instance: {{ .root.Release.Name }}
app.kubernetes.io/component: {{ .component }}
{{- end }}

{{- define "roamcard.image" -}}
{{- if .Values.image.digest -}}
{{ .Values.image.repository }}@{{ .Values.image.digest }}
{{- else -}}
{{ .Values.image.repository }}:{{ .Values.image.tag | default .Chart.AppVersion }}
{{- end -}}
{{- end }}

{{/* private are the listeners of operators that are on, by their names. */}}
{{- define "roamcard.private" -}}
{{- if eq 8402 (int .Values.metrics.port) }}{{ fail "metrics.port: buyers are served at 8402" }}{{ end -}}
{{- $ports := list 8402 (int .Values.metrics.port) -}}
{{- range $listener := list "admin" "console" }}
{{- $of := get $.Values $listener }}
{{- if $of.enabled }}
{{- if has (int $of.port) $ports }}{{ fail (printf "%s.port: another listener has %d" $listener (int $of.port)) }}{{ end }}
{{- $ports = append $ports (int $of.port) }}
{{ $listener }}: {port: {{ $of.port }}}
{{- end }}
{{- end }}
{{- end }}

{{/* pod is the part of a pod that is the same for servers, workers and the migration. */}}
{{- define "roamcard.pod" -}}
automountServiceAccountToken: false
enableServiceLinks: false
{{- with .root.Values.imagePullSecrets }}
imagePullSecrets: {{ toYaml . | nindent 2 }}
{{- end }}
securityContext:
  runAsNonRoot: true
  runAsUser: 65532
  runAsGroup: 65532
  fsGroup: 65532
  seccompProfile: {type: RuntimeDefault}
{{- with .root.Values.nodeSelector }}
nodeSelector: {{ toYaml . | nindent 2 }}
{{- end }}
{{- with .root.Values.tolerations }}
tolerations: {{ toYaml . | nindent 2 }}
{{- end }}
{{- with .root.Values.affinity }}
affinity: {{ toYaml . | nindent 2 }}
{{- end }}
volumes:
  - name: config
    configMap: {name: {{ .config }}}
  - name: secrets
    secret:
      secretName: {{ .root.Values.secret.name }}
      # The user's group reads them; files of Kubernetes belong to root.
      defaultMode: 0440
{{- with .owner }}
  - name: owner
    secret: {secretName: {{ . }}, defaultMode: 0440}
{{- end }}
{{- end }}

{{- define "roamcard.container" -}}
image: {{ include "roamcard.image" .root }}
imagePullPolicy: {{ .root.Values.image.pullPolicy }}
securityContext:
  allowPrivilegeEscalation: false
  readOnlyRootFilesystem: true
  capabilities: {drop: [ALL]}
env:
  - {name: ROAMCARD_ADDR, value: "0.0.0.0:8402"}
  - {name: ROAMCARD_METRICS__ADDR, value: "0.0.0.0:{{ .root.Values.metrics.port }}"}
  {{- if eq .component "server" }}
  {{- range $listener, $of := include "roamcard.private" .root | fromYaml }}
  - {name: ROAMCARD_{{ upper $listener }}__ADDR, value: "0.0.0.0:{{ $of.port }}"}
  {{- end }}
  {{- end }}
  {{- range $setting, $key := .root.Values.secret.keys }}
  - {name: {{ printf "ROAMCARD_%s_FILE" ($setting | replace "." "__" | upper) }}, value: /run/secrets/roamcard/{{ $key }}}
  {{- end }}
  {{- $owner := and (eq .component "migrate") .root.Values.migrate.owner.secret }}
  {{- if $owner }}
  - {name: ROAMCARD_DATABASE__OWNER_URL_FILE, value: /run/secrets/owner/{{ .root.Values.migrate.owner.key }}}
  {{- end }}
  {{- range $name, $value := .root.Values.env }}
  - {name: {{ $name }}, value: {{ $value | quote }}}
  {{- end }}
volumeMounts:
  - {name: config, mountPath: /etc/roamcard, readOnly: true}
  - {name: secrets, mountPath: /run/secrets/roamcard, readOnly: true}
  {{- if $owner }}
  - {name: owner, mountPath: /run/secrets/owner, readOnly: true}
  {{- end }}
{{- end }}
