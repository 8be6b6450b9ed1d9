// Package listen opens what a server listens on: a TCP address, a unix socket or a socket that systemd
// passes, and bounds how many connections are open.
package listen

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/netip"
	"strings"
)

// Off is the address of a listener that there is not.
const Off = "off"

// Address is where to listen. It is a value of the settings.
type Address struct {
	Text string

	network string // "tcp", "unix", "systemd", or "" for none
	where   string // host:port, path or name
}

// Set reads host:port, unix:/path, systemd:name or off.
func (a *Address) Set(text string) error {
	*a = Address{Text: text}
	if text == Off {
		return nil
	}
	if path, ok := strings.CutPrefix(text, "unix:"); ok {
		if !strings.HasPrefix(path, "/") {
			return fmt.Errorf("%q: the path of a unix socket begins with a slash: unix:/run/weblimitd/data.sock", text)
		}
		if len(path) > maxPath {
			return fmt.Errorf("%q: the path of a unix socket has at most %d bytes", text, maxPath)
		}
		a.network, a.where = "unix", path
		return nil
	}
	if name, ok := strings.CutPrefix(text, "systemd:"); ok {
		if name == "" || strings.ContainsAny(name, ": \t") {
			return fmt.Errorf("%q: behind systemd: stands the FileDescriptorName= of a socket unit", text)
		}
		a.network, a.where = "systemd", name
		return nil
	}
	host, port, err := net.SplitHostPort(text)
	if err != nil {
		return fmt.Errorf("%q must be host:port, unix:/path, systemd:name or off", text)
	}
	if host != "" && host != "localhost" {
		if _, err := netip.ParseAddr(host); err != nil {
			return fmt.Errorf("%q: the host must be an IP address or localhost; write :%s for all addresses", text, port)
		}
	}
	if _, err := netip.ParseAddrPort("127.0.0.1:" + port); err != nil {
		return fmt.Errorf("%q: the port must be a number up to 65535", text)
	}
	a.network, a.where = "tcp", text
	return nil
}

// IsOff reports whether there is no listener.
func (a Address) IsOff() bool { return a.network == "" }

// Path returns the path of a unix socket, or "".
func (a Address) Path() string {
	if a.network == "unix" {
		return a.where
	}
	return ""
}

// Same reports whether two listeners would take the same address. Port 0 is a free one.
func (a Address) Same(b Address) bool {
	return !a.IsOff() && a.network == b.network && a.where == b.where && !strings.HasSuffix(a.where, ":0")
}

// SocketOptions are for unix sockets.
type SocketOptions struct {
	Mode  fs.FileMode
	Group string // name or number; "" for that of the process
}

// Passed hands out what systemd has passed, by name.
type Passed interface {
	Take(name string) (net.Listener, error)
}

// Open opens the listener.
func (a Address) Open(ctx context.Context, passed Passed, socket SocketOptions) (net.Listener, error) {
	switch a.network {
	case "":
		return nil, errors.New("the listener is off")
	case "unix":
		return openUnix(ctx, a.where, socket)
	case "systemd":
		return passed.Take(a.where)
	default:
		return new(net.ListenConfig).Listen(ctx, "tcp", a.where)
	}
}

// Reach is from where a listener can be talked to.
type Reach int

// The reaches.
const (
	SocketFile Reach = iota // whoever may open the file of the socket
	Loopback                // everybody on this machine
	Network                 // everybody who can send packets here
)

// ReachOf returns from where a listener can be talked to.
func ReachOf(l net.Listener) Reach {
	switch addr := l.Addr().(type) {
	case *net.UnixAddr:
		if !strings.HasPrefix(addr.Name, "/") { // an abstract socket, which has no file and no permissions
			return Loopback
		}
		return SocketFile
	case *net.TCPAddr:
		if addr.IP.IsLoopback() {
			return Loopback
		}
	}
	return Network
}
