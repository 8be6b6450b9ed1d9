package llmlimit

import (
	"fmt"
	"net"
	"net/url"
	"strconv"
	"strings"
)

// host is a host whose answers are trusted.
type host struct {
	labels []string // "*" for any one
	port   string   // "" for that of the scheme
}

// providers are the hosts of the providers themselves. * is not among them: that of a region is looked at.
var providers = map[string]bool{
	"api.openai.com": true, "api.anthropic.com": true, "generativelanguage.googleapis.com": true, "aiplatform.googleapis.com": true,
}

func parseHost(text string) (host, error) {
	name, port := strings.Trim(text, "[]"), ""
	if h, p, err := net.SplitHostPort(text); err == nil {
		name, port = h, p
		if _, err := strconv.ParseUint(port, 10, 16); err != nil {
			return host{}, fmt.Errorf("%.80q has no port behind its colon", text)
		}
	}
	if name == "" || strings.ContainsAny(name, "/@ ") || strings.HasPrefix(name, ".") || strings.HasSuffix(name, ".") {
		return host{}, fmt.Errorf("%.80q is not a host, or a host with a port", text)
	}
	return host{strings.Split(strings.ToLower(name), "."), port}, nil
}

// is reports whether u is of the host.
func (h host) is(u *url.URL) bool {
	port := u.Port()
	if port == "80" && u.Scheme == "http" || port == "443" && u.Scheme == "https" {
		port = ""
	}
	own := h.port
	if own == "80" && u.Scheme == "http" || own == "443" && u.Scheme == "https" {
		own = ""
	}
	labels := strings.Split(strings.ToLower(u.Hostname()), ".")
	if port != own || len(labels) != len(h.labels) {
		return false
	}
	for i, label := range h.labels {
		if label != "*" && label != labels[i] || labels[i] == "" {
			return false
		}
	}
	return true
}

// trusts reports whether the answer of a URL can lower a charge.
func (m *Meter) trusts(u *url.URL) bool {
	if u == nil {
		return false
	}
	if u.Scheme == "https" && (u.Port() == "" || u.Port() == "443") && isProvider(strings.ToLower(u.Hostname())) {
		return true
	}
	for _, h := range m.trust {
		if h.is(u) {
			return true
		}
	}
	return false
}

func isProvider(name string) bool {
	if providers[name] {
		return true
	}
	if region, ok := strings.CutSuffix(name, "-aiplatform.googleapis.com"); ok { // us-central1-aiplatform.googleapis.com
		return isRegion(region)
	}
	region, ok := strings.CutPrefix(name, "bedrock-runtime.")
	region, is := strings.CutSuffix(region, ".amazonaws.com")
	return ok && is && isRegion(region) // and not s3, where anybody can have a bucket of that name
}

// isRegion reports whether a label is the name of a region, such as us-east-1 or europe-west4.
func isRegion(label string) bool {
	last := len(label) - 1
	return last > 0 && label[last] >= '0' && label[last] <= '9' && strings.Contains(label, "-") && strings.Trim(label, "abcdefghijklmnopqrstuvwxyz0123456789-") == ""
}
