{{- define "weblimitd.name" -}}
{{- default .Chart.Name .Values.nameOverride | trunc 63 | trimSuffix "-" -}}
{{- end -}}

{{- /* Names of objects end with a word such as -metrics, and a label has 63 characters. */ -}}
{{- define "weblimitd.fullname" -}}
{{- $name := include "weblimitd.name" . -}}
{{- if .Values.fullnameOverride -}}
{{- .Values.fullnameOverride | trunc 52 | trimSuffix "-" -}}
{{- else if contains $name .Release.Name -}}
{{- .Release.Name | trunc 52 | trimSuffix "-" -}}
{{- else -}}
{{- printf "%s-%s" .Release.Name $name | trunc 52 | trimSuffix "-" -}}
{{- end -}}
{{- end -}}

{{- /* No version and no name of the chart: these labels are the selector, too, which can not change. */ -}}
{{- define "weblimitd.labels" -}}
app.kubernetes.io/name: {{ include "weblimitd.name" . | quote }}
app.kubernetes.io/instance: {{ .Release.Name | quote }}
{{- end -}}

{{- define "weblimitd.image" -}}
{{- $tag := .Values.image.tag -}}
{{- if not .Values.image.digest -}}{{- $tag = default .Chart.AppVersion $tag -}}{{- end -}}
{{- .Values.image.repository -}}
{{- with $tag -}}:{{ . }}{{- end -}}
{{- with .Values.image.digest -}}@{{ . }}{{- end -}}
{{- end -}}

{{- define "weblimitd.serviceAccount" -}}
{{- if .Values.serviceAccount.create -}}
{{- default (include "weblimitd.fullname" .) .Values.serviceAccount.name -}}
{{- else -}}
{{- default "default" .Values.serviceAccount.name -}}
{{- end -}}
{{- end -}}

{{- /* Where limits are counted: redis, postgres or memory. */ -}}
{{- define "weblimitd.store" -}}
{{- if or .Values.redis.url .Values.redis.urlSecret.name -}}redis
{{- else if or .Values.postgres.url .Values.postgres.urlSecret.name -}}postgres
{{- else -}}memory
{{- end -}}
{{- end -}}

{{- /* The most instances that there are at a time, but for a roll-out: each grants this part of a limit in an outage. */ -}}
{{- define "weblimitd.replicas" -}}
{{- if .Values.autoscaling.enabled -}}{{ int64 .Values.autoscaling.maxReplicas }}{{- else -}}{{ int64 .Values.replicas }}{{- end -}}
{{- end -}}

{{- /* The ConfigMap of the policy file, "" for none. */ -}}
{{- define "weblimitd.policyConfigMap" -}}
{{- if .Values.policy.file -}}{{ include "weblimitd.fullname" . }}-policy{{- else -}}{{ .Values.policy.existingConfigMap }}{{- end -}}
{{- end -}}

{{- /* The ConfigMap of Envoy's files, "" for none. */ -}}
{{- define "weblimitd.envoyConfigMap" -}}
{{- if .Values.envoy.files -}}{{ include "weblimitd.fullname" . }}-envoy{{- else -}}{{ .Values.envoy.existingConfigMap }}{{- end -}}
{{- end -}}

{{- /* Whether Envoy is served, "" for no. */ -}}
{{- define "weblimitd.envoy" -}}
{{- if or .Values.envoy.files .Values.envoy.existingConfigMap .Values.envoy.from -}}true{{- end -}}
{{- end -}}

{{- /* The Secret of the tokens, "" for none. */ -}}
{{- define "weblimitd.tokensSecret" -}}
{{- if .Values.callers.tokens -}}{{ include "weblimitd.fullname" . }}-tokens{{- else -}}{{ .Values.callers.secret.name }}{{- end -}}
{{- end -}}

{{- /* A value as the text of a variable. Helm reads each number as a float, and would write 1000000 as 1e+06. */ -}}
{{- define "weblimitd.text" -}}
{{- if and (kindIs "float64" .) (eq (float64 (int64 .)) .) -}}{{ int64 . }}{{- else -}}{{ . }}{{- end -}}
{{- end -}}

{{- /* Files of secrets, each with its Secret, the key there and the name of the file, as the sources of one volume. */ -}}
{{- define "weblimitd.secretFiles" -}}
{{- $files := list -}}
{{- with include "weblimitd.tokensSecret" . -}}
{{- $files = append $files (list . (ternary "tokens" $.Values.callers.secret.key (not (empty $.Values.callers.tokens))) "tokens") -}}
{{- end -}}
{{- with .Values.callers.reservationSecret -}}{{- if .name -}}{{- $files = append $files (list .name .key "reservation-secrets") -}}{{- end -}}{{- end -}}
{{- with .Values.operators.secret -}}{{- if .name -}}{{- $files = append $files (list .name .key "users") -}}{{- end -}}{{- end -}}
{{- with .Values.redis.passwordSecret -}}{{- if .name -}}{{- $files = append $files (list .name .key "redis-password") -}}{{- end -}}{{- end -}}
{{- with .Values.postgres.passwordSecret -}}{{- if .name -}}{{- $files = append $files (list .name .key "postgres-password") -}}{{- end -}}{{- end -}}
{{- range $files }}
- secret:
    name: {{ index . 0 | quote }}
    items: [{key: {{ index . 1 | quote }}, path: {{ index . 2 }}}]
{{- end -}}
{{- end -}}

{{- /* Annotations of the pods. Those of the user win, such as a scrape that is "false". /metrics/envoy beside /metrics has the
names of envoyproxy/ratelimit. */ -}}
{{- define "weblimitd.podAnnotations" -}}
{{- $all := dict -}}
{{- if not .Values.metrics.serviceMonitor.enabled -}}
{{- $all = dict "prometheus.io/scrape" "true" "prometheus.io/port" "9181" -}}
{{- if .Values.operators.tls.secret -}}{{- $_ := set $all "prometheus.io/scheme" "https" -}}{{- end -}}
{{- end -}}
{{- with merge (deepCopy (default dict .Values.podAnnotations)) $all -}}{{- toYaml . -}}{{- end -}}
{{- end -}}

{{- /* The chart's labels with those by which a Prometheus operator finds an object. It takes the values of the chart and the labels. */ -}}
{{- define "weblimitd.foundBy" -}}
{{- merge (deepCopy (default dict (index . 1))) (include "weblimitd.labels" (index . 0) | fromYaml) | toYaml -}}
{{- end -}}
