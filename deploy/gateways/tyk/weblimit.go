// A plugin of Tyk that asks weblimit about each request. It needs the standard library alone. Build it with the
// plugin compiler of your version of Tyk, and name it in the API definition as api.json does.
package main

import (
	"cmp"
	"errors"
	"io"
	"log"
	"net"
	"net/http"
	"os"
	"strings"
	"time"
)

var (
	// The last part of the path is the name of the policy.
	address = cmp.Or(os.Getenv("WEBLIMIT_URL"), "http://127.0.0.1:9180/v1/auth/api")
	token   = os.Getenv("WEBLIMIT_TOKEN")
	// While the limiter is away: closed, nobody passes; open, everybody passes.
	away = cmp.Or(os.Getenv("WEBLIMIT_AWAY"), "closed")

	client = &http.Client{
		Timeout:       300 * time.Millisecond,
		Transport:     &http.Transport{MaxIdleConnsPerHost: 32, DisableCompression: true},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
)

var (
	// Headers of the client that the limiter does not get: those of the connection and of the body.
	dropped = []string{"Connection", "Keep-Alive", "Proxy-Connection", "Te", "Trailer", "Transfer-Encoding", "Upgrade", "Content-Length", "Expect"}
	// Headers of the limiter's answer that clients get, and those that they get with a denial.
	told   = []string{"Ratelimit", "Ratelimit-Policy", "Ratelimit-Limit", "Ratelimit-Remaining", "Ratelimit-Reset", "X-Ratelimit-Limit", "X-Ratelimit-Remaining", "X-Ratelimit-Reset"}
	denied = []string{"Content-Type", "Content-Language", "Cache-Control", "Retry-After", "Www-Authenticate", "Vary"}
)

// Weblimit is the plugin. What it writes is the response; if it writes none, the request goes on.
func Weblimit(w http.ResponseWriter, r *http.Request) {
	answer, err := ask(r)
	if err != nil {
		log.Print("weblimit is away: ", err)
		if away == "open" {
			return
		}
		w.Header().Set("Content-Type", "application/problem+json")
		w.Header().Set("Cache-Control", "no-store")
		w.Header().Set("Retry-After", "1")
		w.WriteHeader(http.StatusServiceUnavailable)
		_, _ = io.WriteString(w, `{"type":"about:blank","title":"Service Unavailable","status":503,"detail":"Service temporarily unavailable."}`)
		return
	}
	defer answer.Body.Close()
	pass(w, answer, told)
	if answer.StatusCode != http.StatusOK {
		pass(w, answer, denied)
		w.WriteHeader(answer.StatusCode)
		_, _ = io.Copy(w, io.LimitReader(answer.Body, 1<<16))
	}
}

func ask(r *http.Request) (*http.Response, error) {
	question, err := http.NewRequestWithContext(r.Context(), http.MethodGet, address, nil)
	if err != nil {
		return nil, err
	}
	question.Header = r.Header.Clone()
	for _, name := range dropped {
		question.Header.Del(name)
	}
	// The peer. Behind a load balancer, append it to the header instead, and name the load balancer in --gateway-proxies
	// of the limiter. Not what Tyk takes for the client: it believes X-Real-IP of whoever sends it.
	peer, _, _ := net.SplitHostPort(r.RemoteAddr)
	question.Header.Set("X-Forwarded-For", peer)
	question.Header.Set("X-Forwarded-Method", r.Method)
	question.Header.Set("X-Forwarded-Uri", r.RequestURI)
	question.Header.Set("X-Forwarded-Host", r.Host)
	question.Header.Set("Weblimit-Token", token)
	question.Host = "weblimit"
	answer, err := client.Do(question)
	if err != nil {
		return nil, err
	}
	switch status := answer.StatusCode; {
	case status == http.StatusOK && answer.Header.Get("Weblimit-Status") == "200":
	case status == http.StatusOK, status == http.StatusBadGateway, status == http.StatusGatewayTimeout:
		_ = answer.Body.Close()
		return nil, errors.New(answer.Status + " of another program, or of a proxy in front of the limiter")
	}
	return answer, nil
}

func pass(w http.ResponseWriter, answer *http.Response, names []string) {
	for _, name := range names {
		if values := answer.Header[name]; len(values) > 0 {
			w.Header().Set(name, strings.Join(values, ", "))
		}
	}
}

func main() {}
