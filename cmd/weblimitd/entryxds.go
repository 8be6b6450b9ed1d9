package main

import (
	"strings"
)

// fromPlane reports whether variables say that a control plane has the limits.
func (e *entry) fromPlane() bool { return strings.EqualFold(e.value("CONFIG_TYPE"), "GRPC_XDS_SOTW") }

// asConfigType is where limits come from. asFolder has those of files.
func asConfigType(e *entry, v *inherited) {
	switch value := e.value(v.names); {
	case e.fromPlane():
		e.give("envoy-config", xdsPrefix+e.or("CONFIG_GRPC_XDS_SERVER_URL", "localhost:18000"), "CONFIG_TYPE", "CONFIG_GRPC_XDS_SERVER_URL")
	case strings.EqualFold(value, "FILE"):
		e.needless("it is so anyway", v.names)
	case value != "":
		e.fail(v.names, "%q must be FILE or GRPC_XDS_SOTW", value)
	}
}

// asNode is the name that envoyproxy/ratelimit has for a control plane, also by default.
func asNode(e *entry, v *inherited) { e.give(v.instead, e.or(v.names, "default"), v.names) }

// asMaxRetry has the longest pause not be less than the first one: that of envoyproxy/ratelimit is longer than ours.
func asMaxRetry(e *entry, v *inherited) {
	if e.value(v.names) != "" || e.value("XDS_CLIENT_BACKOFF_INITIAL_INTERVAL") != "" {
		e.give(v.instead, e.or(v.names, "60s"), v.names)
	}
}

// asMaxMessage is how large a configuration may be. 0 is the default there.
func asMaxMessage(e *entry, v *inherited) {
	if e.value(v.names) == "0" {
		e.needless("it is the default", v.names)
		return
	}
	asText(e, v)
}
