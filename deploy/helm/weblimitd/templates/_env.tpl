{{- /* The variables of the container. Flags and a settings file have no part in it, so that nothing is said twice. */ -}}
{{- define "weblimitd.env" -}}
{{- $envoy := include "weblimitd.envoy" . -}}
{{- $store := include "weblimitd.store" . -}}
{{- $settings := .Values.settings -}}
{{- if .Values.policy.from -}}
- name: WEBLIMIT_POLICY
  value: {{ .Values.policy.from | quote }}
{{ else if include "weblimitd.policyConfigMap" . -}}
- name: WEBLIMIT_POLICY
  value: {{ printf "/etc/weblimitd/%s" .Values.policy.key | quote }}
{{ end -}}
{{- if $envoy -}}
- name: WEBLIMIT_ENVOY_CONFIG
  value: {{ default "/etc/weblimitd-envoy" .Values.envoy.from | quote }}
- name: WEBLIMIT_GRPC_LISTEN
  value: ":9182"
{{ end -}}
- name: WEBLIMIT_LISTEN
  value: {{ ternary ":9180" "off" .Values.http.enabled | quote }}{{ if not .Values.http.enabled }} # Envoy asks over gRPC alone{{ end }}
- name: WEBLIMIT_ADMIN_LISTEN
  value: ":9181" # health and metrics{{ if not .Values.operators.tls.secret }}; operators need TLS here{{ end }}
{{- range $name := list "redis" "postgres" }}
{{- with index $.Values $name }}
{{- if .url }}
- name: WEBLIMIT_{{ upper $name }}
  value: {{ .url | quote }}
{{- else if .urlSecret.name }}
- name: WEBLIMIT_{{ upper $name }}
  valueFrom:
    secretKeyRef: {name: {{ .urlSecret.name | quote }}, key: {{ .urlSecret.key | quote }}}
{{- end }}
{{- if .passwordSecret.name }}
- name: WEBLIMIT_{{ upper $name }}_PASSWORD_FILE
  value: /etc/weblimitd-secrets/{{ $name }}-password
{{- end }}
{{- end }}
{{- end }}
{{- if and (ne $store "memory") (not (hasKey $settings "replicas")) }}
- name: WEBLIMIT_REPLICAS
  value: {{ include "weblimitd.replicas" . | quote }} # each grants its part while the store is away
{{- end }}
{{- include "weblimitd.envOfCallers" . }}
- name: WEBLIMIT_DRAIN_DELAY
  value: {{ int64 .Values.drain.delaySeconds }}s # until all nodes and Envoys know that this one is not ready
- name: WEBLIMIT_DRAIN_TIMEOUT
  value: {{ int64 .Values.drain.timeoutSeconds }}s
{{- if not (hasKey $settings "log-format") }}
- name: WEBLIMIT_LOG_FORMAT
  value: json
{{- end }}
{{- if .Values.logSecret.name }}
- name: WEBLIMIT_LOG_SECRET
  valueFrom:
    secretKeyRef: {name: {{ .Values.logSecret.name | quote }}, key: {{ .Values.logSecret.key | quote }}}
{{- end }}
{{- if not (hasKey $settings "instance") }}
- name: WEBLIMIT_INSTANCE
  valueFrom:
    fieldRef: {fieldPath: metadata.name}
{{- end }}
{{- range $name, $value := $settings }}
- name: WEBLIMIT_{{ $name | upper | replace "-" "_" }}
  value: {{ include "weblimitd.text" $value | quote }}
{{- end }}
{{- end -}}

{{- define "weblimitd.envOfCallers" -}}
{{- with .Values.callers }}
{{- if or .tokens .secret.name }}
- name: WEBLIMIT_TOKENS_FILE
  value: /etc/weblimitd-secrets/tokens
{{- end }}
{{- if .tls.secret }}
- name: WEBLIMIT_TLS_CERT
  value: /etc/weblimitd-tls/tls.crt
- name: WEBLIMIT_TLS_KEY
  value: /etc/weblimitd-tls/tls.key
{{- end }}
{{- if .tls.clientCA }}
- name: WEBLIMIT_TLS_CLIENT_CA
  value: /etc/weblimitd-tls/ca.crt
{{- end }}
{{- with .tls.clientNames }}
- name: WEBLIMIT_TLS_CLIENT_NAMES
  value: {{ join "," . | quote }}
{{- end }}
{{- if .insecure }}
- name: WEBLIMIT_INSECURE_LISTEN
  value: "true"
{{- end }}
{{- if .reservationSecret.name }}
- name: WEBLIMIT_RESERVATION_SECRETS_FILE
  value: /etc/weblimitd-secrets/reservation-secrets
{{- end }}
{{- end }}
{{- with .Values.operators }}
{{- if .secret.name }}
- name: WEBLIMIT_ADMIN_USERS_FILE
  value: /etc/weblimitd-secrets/users
{{- end }}
{{- if .tls.secret }}
- name: WEBLIMIT_ADMIN_TLS_CERT
  value: /etc/weblimitd-admin-tls/tls.crt
- name: WEBLIMIT_ADMIN_TLS_KEY
  value: /etc/weblimitd-admin-tls/tls.key
{{- end }}
{{- with .hosts }}
- name: WEBLIMIT_ADMIN_HOSTS
  value: {{ join "," . | quote }}
{{- end }}
{{- end }}
{{- end -}}
