package keyfuncs

import (
	"fmt"
	"strings"
)

// addressHeaders are headers that proxies write addresses into, in lower case, with
// the Strategy that reads each. Taken as they are, each would give its writer a
// fresh bucket per value, and that is the client wherever no proxy sets them.
var addressHeaders = map[string]string{
	"cf-connecting-ip":         `Cloudflare()`,
	"cf-connecting-ipv6":       `Cloudflare()`,
	"client-ip":                `SingleHeader("Client-IP", proxies...)`,
	"fastly-client-ip":         `SingleHeader("Fastly-Client-IP", proxies...)`,
	"fly-client-ip":            `SingleHeader("Fly-Client-IP", proxies...)`,
	"forwarded":                `Forwarded(proxies...)`,
	"forwarded-for":            `TrustedProxies(proxies...)`,
	"true-client-ip":           `SingleHeader("True-Client-IP", proxies...)`,
	"x-appengine-user-ip":      `SingleHeader("X-Appengine-User-IP", proxies...)`,
	"x-azure-clientip":         `SingleHeader("X-Azure-ClientIP", proxies...)`,
	"x-client-ip":              `SingleHeader("X-Client-IP", proxies...)`,
	"x-cluster-client-ip":      `SingleHeader("X-Cluster-Client-IP", proxies...)`,
	"x-forwarded":              `Forwarded(proxies...)`,
	"x-forwarded-for":          `TrustedProxies(proxies...)`,
	"x-original-forwarded-for": `TrustedProxies(proxies...)`,
	"x-real-ip":                `XRealIP(proxies...)`,
}

// listHeaders are those of them that each proxy appends to. SingleHeader would find
// an address in one only as long as there is a single proxy and no client that has
// sent the header before.
var listHeaders = []string{"forwarded", "forwarded-for", "x-forwarded", "x-forwarded-for", "x-original-forwarded-for"}

// addressHeaderError reports a header that is neither a key nor a secret.
func addressHeaderError(constructor, name string) error {
	if strategy, ok := addressHeaders[foldName(name)]; ok {
		return fmt.Errorf("weblimit: keyfuncs.%s: %s carries an address, which clients can make up; use keyfuncs.ClientIP(keyfuncs.%s)", constructor, name, strategy)
	}
	return nil
}

// foldName takes "X_Real_IP" for X-Real-IP: it is another header, which clients
// write to be taken for it.
func foldName(name string) string { return strings.ReplaceAll(strings.ToLower(name), "_", "-") }
