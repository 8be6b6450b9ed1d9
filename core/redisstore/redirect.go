package redisstore

// MOVED and ASK: what a Cluster node answers for a slot that another node has.

import (
	"errors"
	"net"
	"strings"

	"github.com/redis/go-redis/v9"
)

// redirection is a Cluster node's answer that another node has the slot: for good
// (MOVED), or for the keys that have been moved there while the slot is on its way
// (ASK). The node has not run the call.
type redirection struct {
	reply error
	addr  string // of the other node, as Redis writes it
	ask   bool   // ASK
}

func (r redirection) Error() string { return r.reply.Error() }
func (r redirection) Unwrap() error { return r.reply }

// redirectionOf reads an error as a redirection: "MOVED 3999 127.0.0.1:6381".
func redirectionOf(err error) (redirection, bool) {
	var reply redis.Error
	if !errors.As(err, &reply) {
		return redirection{}, false
	}
	fields := strings.Fields(reply.Error())
	if len(fields) != 3 || fields[0] != "MOVED" && fields[0] != "ASK" {
		return redirection{}, false
	}
	return redirection{reply: err, addr: fields[2], ask: fields[0] == "ASK"}, true
}

// from returns the redirection with its address as go-redis writes it. Redis leaves
// out the brackets around IPv6, and a node leaves out the host if it is its own.
func (r redirection) from(n *node) redirection {
	colon := strings.LastIndexByte(r.addr, ':')
	if colon < 0 {
		return r
	}
	host, port := strings.Trim(r.addr[:colon], "[]"), r.addr[colon+1:]
	if host == "" {
		own, _, err := net.SplitHostPort(n.name)
		if err != nil {
			return r
		}
		host = own
	}
	r.addr = net.JoinHostPort(host, port)
	return r
}
