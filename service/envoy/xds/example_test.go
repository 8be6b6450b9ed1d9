package xds_test

import (
	"context"
	"crypto/tls"
	"fmt"

	"github.com/weblimit/weblimit/core"
	"github.com/weblimit/weblimit/service/envoy"
	"github.com/weblimit/weblimit/service/envoy/xds"
)

// A rate limit service for Envoy Gateway. New connects to nothing; envoy.New waits for the control plane.
func ExampleNew() {
	source, err := xds.New(xds.Config{
		Server: "envoy-gateway:18001",
		TLS: func() (*tls.Config, error) { // read for each connection, since they are renewed
			own, err := tls.LoadX509KeyPair("/certs/tls.crt", "/certs/tls.key")
			return &tls.Config{Certificates: []tls.Certificate{own}, MinVersion: tls.VersionTLS12}, err
		},
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	serve := func(ctx context.Context) error {
		server, err := envoy.New(envoy.Config{Source: source, AllowEmpty: true, Store: core.NewMemory()})
		if err != nil {
			return err
		}
		defer server.Watch(ctx)()
		<-ctx.Done()
		return nil
	}
	_ = serve
	fmt.Println("connected:", source.Status().Connected)
	// Output: connected: false
}
