package keyfuncs

import (
	"fmt"
	"strings"
)

// addressHeaders are headers into which proxies write addresses, in lower case, with
// the Strategy that reads each. As plain keys they would give clients a fresh bucket
// per value wherever no proxy sets them.
var addressHeaders = map[string]string{
	"cf-connecting-ip":          `Cloudflare()`,
	"cf-connecting-ipv6":        `Cloudflare()`,
	"client-ip":                 `SingleHeader("Client-IP", proxies...)`,
	"cloudfront-viewer-address": `SingleHeader("CloudFront-Viewer-Address", proxies...)`,
	"do-connecting-ip":          `SingleHeader("DO-Connecting-IP", proxies...)`,
	"fastly-client-ip":          `SingleHeader("Fastly-Client-IP", proxies...)`,
	"fly-client-ip":             `SingleHeader("Fly-Client-IP", proxies...)`,
	"forwarded":                 `Forwarded(proxies...)`,
	"forwarded-for":             `TrustedProxies(proxies...)`,
	"true-client-ip":            `SingleHeader("True-Client-IP", proxies...)`,
	"x-appengine-user-ip":       `SingleHeader("X-Appengine-User-IP", proxies...)`,
	"x-azure-clientip":          `SingleHeader("X-Azure-ClientIP", proxies...)`,
	"x-client-ip":               `SingleHeader("X-Client-IP", proxies...)`,
	"x-cluster-client-ip":       `SingleHeader("X-Cluster-Client-IP", proxies...)`,
	"x-envoy-external-address":  `SingleHeader("X-Envoy-External-Address", proxies...)`,
	"x-nf-client-connection-ip": `SingleHeader("X-NF-Client-Connection-IP", proxies...)`,
	"x-vercel-forwarded-for":    `SingleHeader("X-Vercel-Forwarded-For", proxies...)`,
	"x-forwarded":               `Forwarded(proxies...)`,
	"x-forwarded-for":           `TrustedProxies(proxies...)`,
	"x-original-forwarded-for":  `TrustedProxies(proxies...)`,
	"x-real-ip":                 `XRealIP(proxies...)`,
}

// listHeaders are the address headers to which each proxy appends. SingleHeader would
// find one address in them only with a single proxy, and only if the client has not
// sent the header.
var listHeaders = []string{"forwarded", "forwarded-for", "x-forwarded", "x-forwarded-for", "x-original-forwarded-for"}

// addressHeaderError returns an error for a header that carries addresses.
func addressHeaderError(constructor, name string) error {
	if strategy, ok := addressHeaders[foldName(name)]; ok {
		otherwise := ""
		if constructor == "Header" {
			otherwise = ", or keyfuncs.Custom if the text itself is meant"
		}
		return fmt.Errorf("weblimit: keyfuncs.%s: %s carries an address, which clients can make up; use keyfuncs.ClientIP(keyfuncs.%s)%s", constructor, name, strategy, otherwise)
	}
	return nil
}

// foldName folds "X_Real_IP" to X-Real-IP. It is another header, which clients send to
// have it mistaken for X-Real-IP.
func foldName(name string) string { return strings.ReplaceAll(strings.ToLower(name), "_", "-") }
