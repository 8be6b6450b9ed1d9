package main

import (
	"net"
	"path/filepath"
	"strconv"
	"strings"

	"go.opentelemetry.io/otel/attribute"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
)

// What follows says what variables mean, in the table: see inherited.becomes.

// asText has the first setting of a row have the text of its first variable.
func asText(e *entry, v *inherited) {
	setting, _, _ := strings.Cut(v.instead, " ")
	variable, _, _ := strings.Cut(v.names, " ")
	if value := e.value(variable); value != "" {
		e.give(setting, value, variable)
	}
}

// asBool does so with true and false, which envoyproxy/ratelimit takes in several spellings.
func asBool(e *entry, v *inherited) {
	if is, ok := e.bool(v.names); ok {
		e.give(v.instead, strconv.FormatBool(is), v.names)
	}
}

// bool returns what a variable says, if it is set and says anything.
func (e *entry) bool(variable string) (is, ok bool) {
	value := e.value(variable)
	if value == "" {
		return false, false
	}
	is, err := strconv.ParseBool(value)
	if err != nil {
		e.fail(variable, "%q must be true or false", value)
	}
	return is, err == nil
}

// asAddress is a listener of a host and a port. envoyproxy/ratelimit listens on all addresses by default.
func asAddress(host, port, byDefault string) func(*entry, *inherited) {
	return func(e *entry, v *inherited) {
		on := strings.Trim(e.or(host, "0.0.0.0"), "[]")
		e.give(v.instead, net.JoinHostPort(on, e.or(port, byDefault)), host, port)
	}
}

func asGRPC(e *entry, v *inherited) {
	if path := e.value("GRPC_UDS"); path != "" {
		e.give(v.instead, "unix:"+path, "GRPC_UDS")
		e.needless("GRPC_UDS is set", "GRPC_HOST", "GRPC_PORT")
		return
	}
	asAddress("GRPC_HOST", "GRPC_PORT", "8081")(e, v)
}

// asTLS has the gRPC listener alone have TLS: probes ask the other one without.
func asTLS(e *entry, _ *inherited) {
	if is, _ := e.bool("GRPC_SERVER_USE_TLS"); is {
		e.give("tls-grpc-only", "true", "GRPC_SERVER_USE_TLS")
	} else {
		e.needless("it is so anyway", "GRPC_SERVER_USE_TLS")
	}
}

// asFolder is where envoyproxy/ratelimit reads its files.
func asFolder(e *entry, v *inherited) {
	if e.fromPlane() {
		e.needless("a control plane has the limits", strings.Fields(v.names)...)
		return
	}
	folder := filepath.Join(e.or("RUNTIME_ROOT", "/srv/runtime_data/current"), e.value("RUNTIME_SUBDIRECTORY"), e.or("RUNTIME_APPDIRECTORY", "config"))
	e.give(v.instead, folder, strings.Fields(v.names)...)
}

// asOverdraw has hits that do not fit be charged, where envoyproxy/ratelimit is told to go on counting.
func asOverdraw(e *entry, v *inherited) {
	switch is, ok := e.bool(v.names); {
	case ok && !is:
		e.give(v.instead, "always", v.names)
	case ok:
		e.needless("it is so anyway", v.names)
	}
}

// asReadiness has an instance not be ready while Redis is away.
func asReadiness(e *entry, v *inherited) {
	if is, ok := e.bool(v.names); ok {
		e.give(v.instead, strconv.FormatBool(!is), v.names)
	}
}

// levels are those of envoyproxy/ratelimit, and ours.
var levels = map[string]string{
	"panic": "error", "fatal": "error", "error": "error", "warn": "warn", "warning": "warn", "info": "info", "debug": "debug", "trace": "debug",
}

func asLevel(e *entry, v *inherited) {
	value := e.value(v.names)
	if level := levels[strings.ToLower(value)]; level != "" {
		e.give(v.instead, level, v.names)
	} else if value != "" {
		e.fail(v.names, "%q must be debug, info, warn or error", value)
	}
}

func asFormat(e *entry, v *inherited) {
	switch value := e.value(v.names); {
	case strings.EqualFold(value, "json"):
		e.give(v.instead, "json", v.names)
	case value != "":
		e.give(v.instead, "text", v.names)
	}
}

// asScraped has a listener for metrics, with those of envoyproxy/ratelimit on its page.
func asScraped(e *entry, _ *inherited) {
	if is, _ := e.bool("USE_PROMETHEUS"); !is {
		e.needless("`/metrics/envoy` of the debug port has them", "USE_PROMETHEUS")
		return
	}
	e.give("metrics-listen", e.or("PROMETHEUS_ADDR", ":9090"), "USE_PROMETHEUS", "PROMETHEUS_ADDR")
	if path := e.value("PROMETHEUS_PATH"); path != "" {
		e.give("metrics-path", path, "PROMETHEUS_PATH")
	}
}

// asSaid is of variables that another row has read.
func asSaid(*entry, *inherited) {}

// asMapping is of a file that Envoy Gateway always names. Its names are those that metrics have anyway.
func asMapping(e *entry, v *inherited) { e.say("not read: "+v.note, v.names) }

// asTraces sends no traces unless it is told to, as envoyproxy/ratelimit does, even where the collector is known.
func asTraces(e *entry, v *inherited) {
	is, _ := e.bool(v.names)
	switch {
	case !is:
		e.tracing.off = true
		e.say("no traces are sent", v.names)
	case !e.traced():
		e.fail(v.names, "set OTEL_EXPORTER_OTLP_ENDPOINT to the collector, by HTTP, or unset it")
	default:
		e.say("traces are sent where OTEL_EXPORTER_OTLP_ENDPOINT says", v.names)
	}
}

// asNames is by which names traces are found. Those that OpenTelemetry's own variables have win.
func asNames(e *entry, _ *inherited) {
	for _, name := range []struct{ variable, attribute, byDefault string }{
		{"TRACING_SERVICE_NAME", "service.name", "RateLimit"}, {"TRACING_SERVICE_NAMESPACE", "service.namespace", ""}, {"TRACING_SERVICE_INSTANCE_ID", "service.instance.id", ""},
	} {
		if value := e.or(name.variable, name.byDefault); value != "" {
			e.tracing.attributes = append(e.tracing.attributes, attribute.String(name.attribute, value))
			e.say("traces have "+name.attribute+"="+value, name.variable)
		}
	}
}

func asSampler(e *entry, v *inherited) {
	value := e.value(v.names)
	switch rate, err := strconv.ParseFloat(value, 64); {
	case value == "":
	case e.variables["OTEL_TRACES_SAMPLER"] != "":
		e.needless("OTEL_TRACES_SAMPLER is set", v.names)
	case err != nil:
		e.fail(v.names, "%q must be a part of 1, such as 0.1", value)
	default:
		e.tracing.sampler = sdktrace.ParentBased(sdktrace.TraceIDRatioBased(rate))
		e.say("that part of traces is sent which no caller has begun", v.names)
	}
}
