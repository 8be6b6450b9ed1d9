// Command serve is weblimit's service for Envoy in a process of its own, for measurements.
package main

import (
	"flag"
	"log"
	"net"

	"github.com/redis/go-redis/v9"
	"github.com/weblimit/weblimit/core/redisstore"
	"github.com/weblimit/weblimit/service/envoy"
	"google.golang.org/grpc"
)

func main() {
	config := flag.String("config", "", "directory of the files")
	server := flag.String("redis", "", "address of Redis")
	listen := flag.String("listen", "", "address to listen on")
	independent := flag.Bool("independent", false, "charge each descriptor by itself")
	flag.Parse()
	s, err := envoy.New(envoy.Config{
		Source: envoy.Directory(*config), Independent: *independent,
		Store: redisstore.New(redis.NewClient(&redis.Options{Addr: *server}), redisstore.Config{}),
	})
	if err != nil {
		log.Fatal(err)
	}
	l, err := net.Listen("tcp", *listen)
	if err != nil {
		log.Fatal(err)
	}
	g := grpc.NewServer()
	s.Register(g)
	log.Fatal(g.Serve(l))
}
