package main

import (
	"errors"
	"net"
	"net/url"
	"strings"
)

// asRedis is where envoyproxy/ratelimit counts. There is no default: its own is the socket of a proxy that is rarely
// there, and without Redis each instance would grant a share of the limits by itself.
func asRedis(e *entry, v *inherited) {
	text, kind := strings.TrimSpace(e.value("REDIS_URL")), e.redisType()
	socket := e.or("REDIS_SOCKET_TYPE", "unix")
	names := strings.Fields(v.names)
	byURL := strings.HasPrefix(text, "redis://") || strings.HasPrefix(text, "rediss://")
	switch {
	case !strings.EqualFold(e.or("BACKEND_TYPE", "redis"), "redis"): // which is refused
		return
	case text == "":
		e.fail("REDIS_URL", "it is not set, and says where limits are counted: set it, --redis or --postgres")
		return
	case socket != "unix" && socket != "tcp":
		e.fail("REDIS_SOCKET_TYPE", "%q must be tcp or unix", socket)
		return
	case kind == "single" && socket == "unix" && !byURL:
		if !strings.HasPrefix(text, "/") {
			e.fail("REDIS_URL", "it must be the path of a socket, which begins with a slash, unless REDIS_SOCKET_TYPE=tcp says otherwise")
			return
		}
		e.give("redis", (&url.URL{Scheme: "unix", Path: text}).String(), names...)
		return
	}
	nodes := []string{text}
	if kind != "single" {
		nodes = strings.Split(text, ",")
	}
	if kind == "sentinel" {
		if len(nodes) < 2 || nodes[0] == "" {
			e.fail("REDIS_URL", "with REDIS_TYPE=sentinel it must be the name of the master and the addresses of Sentinels, with commas between them")
			return
		}
		e.give("redis-sentinel-master", nodes[0], "REDIS_URL")
		nodes = nodes[1:]
	}
	address, err := redisURL(nodes, e.yes("REDIS_TLS"))
	if err != nil {
		e.fail("REDIS_URL", "%w", err)
		return
	}
	e.give("redis", address, names...)
}

// redisURL returns addresses of envoyproxy/ratelimit, host:port or redis://, as one URL of ours. No error repeats them.
func redisURL(nodes []string, secure bool) (string, error) {
	all, others := url.URL{Scheme: "redis"}, url.Values{}
	for _, node := range nodes {
		if !strings.Contains(node, "://") {
			node = "redis://" + node
		}
		u, err := url.Parse(strings.TrimSpace(node))
		if err != nil {
			return "", errors.New("it is no URL; letters such as / and @ in a password must be escaped: %2F, %40")
		}
		if u.Scheme != "redis" && u.Scheme != "rediss" || u.Hostname() == "" {
			return "", errors.New("it must be host:port or redis://host:port, or several of them with commas between them")
		}
		if u.Port() == "" {
			u.Host = net.JoinHostPort(u.Hostname(), "6379")
		}
		secure = secure || u.Scheme == "rediss"
		if all.Host == "" {
			all.User, all.Host, all.Path = u.User, u.Host, u.Path
			continue
		}
		if u.User != nil && (all.User == nil || u.User.String() != all.User.String()) {
			return "", errors.New("its addresses have several users or passwords: set REDIS_AUTH")
		}
		others.Add("addr", u.Host)
	}
	if secure {
		all.Scheme = "rediss"
	}
	all.RawQuery = others.Encode()
	return all.String(), nil
}

// asBackend has Redis be the store. There is no other that both programs have.
func asBackend(e *entry, v *inherited) {
	if value := e.value(v.names); value == "" || strings.EqualFold(value, "redis") {
		e.needless("it is so anyway", v.names)
		return
	}
	e.refuse(v)
}

// redisType is single, cluster or sentinel.
func (e *entry) redisType() string { return strings.ToLower(e.or("REDIS_TYPE", "SINGLE")) }

func asRedisType(e *entry, v *inherited) {
	switch e.redisType() {
	case "single":
		e.needless("it is so anyway", v.names)
	case "cluster":
		e.give("redis-cluster", "true", v.names)
	case "sentinel":
		e.say("--redis-sentinel-master, as REDIS_URL says", v.names)
	default:
		e.fail(v.names, "%q must be SINGLE, SENTINEL or CLUSTER", e.value(v.names))
	}
}

// asPassword is of user:password, or a password alone.
func asPassword(user, password string) func(*entry, *inherited) {
	return func(e *entry, v *inherited) {
		value := e.value(v.names)
		if value == "" {
			return
		}
		if strings.HasPrefix(user, "redis-sentinel") && e.redisType() != "sentinel" {
			e.needless("it means nothing without REDIS_TYPE=sentinel", v.names)
			return
		}
		name, secret, both := strings.Cut(value, ":")
		if !both {
			name, secret = "", value
		}
		if name != "" {
			e.give(user, name, v.names)
		}
		if secret != "" {
			e.give(password, secret, v.names)
		}
	}
}

func asRedisTLS(e *entry, v *inherited) {
	if is, ok := e.bool(v.names); ok && is {
		e.say("--redis rediss://…", v.names)
	} else if ok {
		e.needless("it is so anyway", v.names)
	}
}
