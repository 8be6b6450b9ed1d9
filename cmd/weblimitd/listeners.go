package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"strconv"
	"strings"

	"github.com/weblimit/weblimit/cmd/weblimitd/internal/listen"
	"github.com/weblimit/weblimit/internal/settings"
)

// listenOptions are the settings of listeners.
type listenOptions struct {
	listen, adminListen, grpcListen, metricsListen listen.Address
	metricsPath                                    settings.String
	insecureListen                                 settings.Bool
	socketMode                                     mode
	socketGroup, adminSocketGroup                  settings.String
}

func (o *listenOptions) add(g settings.Group) {
	g.Add("listen", &o.listen, "127.0.0.1:9180", "checks, for callers")
	g.Add("admin-listen", &o.adminListen, "127.0.0.1:9181", "health, metrics, page, reload and roll-back, for operators")
	g.Add("grpc-listen", &o.grpcListen, "127.0.0.1:9182", "gRPC, for Envoy; only with --envoy-config")
	g.Add("metrics-listen", &o.metricsListen, listen.Off, "metrics alone, all of them on one page, for a Prometheus that is to reach nothing else")
	g.Add("metrics-path", &o.metricsPath, "/metrics", "path of that page").Needs("metrics-listen")
	g.Add("insecure-listen", &o.insecureListen, "false", "serve callers on the network who have neither a token nor a certificate, and operators without TLS")
	g.Add("socket-mode", &o.socketMode, "0660", "permissions of unix sockets")
	g.Add("socket-group", &o.socketGroup, "", "group of the unix sockets for callers, such as that of a gateway")
	g.Add("admin-socket-group", &o.adminSocketGroup, "", "group of the unix socket for operators: its members may do everything")
}

// mode is the permissions of a file, in octal digits.
type mode struct{ fs.FileMode }

// Set implements settings.Value.
func (m *mode) Set(text string) error {
	n, err := strconv.ParseUint(text, 8, 32)
	if err != nil || n > 0o777 {
		return fmt.Errorf("%q must be octal digits such as 0660", text)
	}
	if n&0o002 != 0 {
		return fmt.Errorf("%q would let everybody on this machine in", text)
	}
	m.FileMode = fs.FileMode(n)
	return nil
}

// listener is one of the listeners of the settings, by its name in logs and metrics.
type listener struct {
	name    string
	address listen.Address
	callers bool // and not operators or Prometheus
}

func (o *listenOptions) listeners() []listener {
	return []listener{{"data", o.listen, true}, {"admin", o.adminListen, false}, {"grpc", o.grpcListen, true}, {"metrics", o.metricsListen, false}}
}

// validate refuses listeners that nobody could use.
func (o *listenOptions) validate() error {
	if o.listen.IsOff() && o.grpcListen.IsOff() {
		return errors.New("nobody could ask: set --listen or --grpc-listen")
	}
	if !strings.HasPrefix(string(o.metricsPath), "/") {
		return fmt.Errorf("--metrics-path: %q must begin with a slash", o.metricsPath)
	}
	all := o.listeners()
	for i, one := range all {
		for _, other := range all[:i] {
			if one.address.Same(other.address) {
				return fmt.Errorf("--%s and --%s are both %s: callers and operators need different listeners", flagOf(other.name), flagOf(one.name), one.address.Text)
			}
		}
	}
	return nil
}

// openListeners opens all listeners, or none.
func (s *daemon) openListeners(ctx context.Context, passed listen.Passed) (err error) {
	o := s.options
	defer func() {
		if err != nil {
			for _, l := range s.listeners {
				_ = l.Close()
			}
		}
	}()
	for _, one := range o.listeners() {
		if one.address.IsOff() {
			continue
		}
		group := o.adminSocketGroup
		if one.callers { // a gateway's group may ask, and not operate
			group = o.socketGroup
		}
		l, err := one.address.Open(ctx, passed, listen.SocketOptions{Mode: o.socketMode.FileMode, Group: string(group)})
		if err != nil {
			return fmt.Errorf("--%s: %w", flagOf(one.name), err)
		}
		s.listeners[one.name] = listen.Bound(l, o.maxConnections.N)
		if one.callers {
			if err := s.reachable(one.name, listen.ReachOf(l)); err != nil {
				return err
			}
		}
	}
	return nil
}

// flagOf returns the setting of a listener.
func flagOf(listener string) string {
	if listener == "data" {
		return "listen"
	}
	return listener + "-listen"
}

// reachable refuses to serve unknown callers over the network. What a caller says of a client is
// believed, so anybody who could ask could use up anybody's quota.
func (s *daemon) reachable(listener string, reach listen.Reach) error {
	o := s.options
	if reach != listen.Network || bool(o.insecureListen) {
		return nil
	}
	if s.callers.tokens == nil && (o.tlsClientCA == "" || s.certs[listener] == nil) {
		return fmt.Errorf("--%s: everybody on the network could use up the quotas of others there: set --tls-client-ca or --tokens-file, listen on 127.0.0.1 or unix:/path, or set --insecure-listen if the network itself keeps others out", flagOf(listener))
	}
	if s.certs[listener] == nil {
		s.log.Warn("weblimitd: tokens and what clients send can be read on the way to this listener: set --tls-cert", "listener", listener)
	}
	return nil
}
