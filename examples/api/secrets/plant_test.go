package secrets

import (
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
)

// marker is in each secret that can be any text.
const marker = "pLaNtEd"

// What is planted. Each must be nowhere, in no notation.
const (
	bypassToken = "bypass-" + marker + "-0123456789"
	goodKey     = "sk_live_" + marker + "_good"
	badKey      = "sk_live_" + marker + "_bad"
	user        = "user." + marker + "@example.org"
	address     = "203.0.113.77"
	address6    = "2001:db8:77:88::99"
	forwarded   = "198.51.100.99"
)

var secrets = []string{
	marker, bypassToken, goodKey, badKey, user, address, address6, "2001:db8:77:88", forwarded,
}

// needle is a secret in one notation.
type needle struct{ name, text string }

// needlesOf returns what to look for.
func needlesOf(secrets []string) (needles []needle) {
	for _, secret := range secrets {
		for how, written := range notations(secret) {
			needles = append(needles, needle{fmt.Sprintf("%q %s", secret, how), strings.ToLower(written)})
		}
	}
	return needles
}

// find returns the names of the needles that a text holds, in any case.
func find(text string, needles []needle) (found []string) {
	text = strings.ToLower(text)
	for _, n := range needles {
		if strings.Contains(text, n.text) {
			found = append(found, n.name)
		}
	}
	return found
}

// notations are ways to write a secret. Base64 has three, one for each place that it can start at;
// what neighbours decide is cut off.
func notations(secret string) map[string]string {
	all := map[string]string{
		"as it is":   secret,
		"in hex":     hex.EncodeToString([]byte(secret)),
		"escaped":    url.QueryEscape(secret),
		"as bytes":   strings.Trim(fmt.Sprintf("%d", []byte(secret)), "[]"),
		"as a Go []": strings.TrimSuffix(strings.TrimPrefix(fmt.Sprintf("%#v", []byte(secret)), "[]byte{"), "}"),
	}
	for shift := range 3 {
		text := base64.RawStdEncoding.EncodeToString([]byte(strings.Repeat("\x00", shift) + secret))
		all[fmt.Sprint("in base64 at ", shift)] = text[(shift*4+2)/3 : len(text)-1]
	}
	return all
}

// plant returns requests that have secrets wherever a client can put one.
func plant() (requests []*http.Request) {
	for _, from := range []string{address + ":4711", "[" + address6 + "]:4711"} {
		for _, target := range []string{
			"POST /login", "POST /otp", "GET /search?q=" + marker + "&api_key=" + badKey, "GET /articles", "POST /articles", "POST /uploads", "POST /ai",
			"POST /webhooks/" + marker, "POST /webhooks/%0a" + marker + "%0dlevel=ERROR", "GET /v1/items?key=" + goodKey, "GET /v1/search", "GET /v1/export", "GET /app/report",
			"GET /healthz", "GET /" + marker, "GET /v1/" + marker + "%00%1b[2J", marker + " /login", marker + " /login/" + marker,
		} {
			method, path, _ := strings.Cut(target, " ")
			for _, who := range []map[string][]string{
				{},
				{"Authorization": {"Bearer " + user}, "X-Api-Key": {goodKey}},
				{"Authorization": {"Bearer " + marker + "\r\nX-Evil: " + marker}, "X-Api-Key": {badKey}},
				{"Authorization": {"Basic " + base64.StdEncoding.EncodeToString([]byte(user+":"+marker))}, "X-Api-Key": {goodKey, badKey}},
				{"X-Bypass-Token": {bypassToken}},
				{"X-Bypass-Token": {bypassToken + "x"}},
			} {
				r := httptest.NewRequest(method, path, strings.NewReader(`{"password":"`+marker+`"}`))
				r.RemoteAddr, r.Host = from, marker+".example.org"
				for name, values := range map[string][]string{
					"Cookie": {"session=" + marker}, "User-Agent": {marker}, "X-Forwarded-For": {forwarded}, "Forwarded": {"for=" + forwarded},
					"X-Real-Ip": {forwarded}, "X-" + marker: {"\x1b[31m\n" + marker}, "Referer": {"https://" + marker + ".example.org/?t=" + goodKey},
					"Idempotency-Key": {marker}, "Traceparent": {marker}, "Baggage": {"t=" + marker},
				} {
					r.Header[http.CanonicalHeaderKey(name)] = values
				}
				for name, values := range who {
					r.Header[name] = values
				}
				requests = append(requests, r)
			}
		}
	}
	return requests
}
