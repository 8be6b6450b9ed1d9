package keyfuncs_test

import (
	"fmt"
	"net/http"
	"net/url"

	"github.com/weblimit/weblimit/keyfuncs"
)

// claims is what an app's authentication found in a token.
type claims struct{ Plan string }

func planOfClaims(r keyfuncs.Request) (string, bool) {
	c, ok := r.Value("claims").(claims)
	return c.Plan, ok
}

func ExampleClientIP() {
	key := keyfuncs.ClientIP()

	fmt.Println(key.Key(&request{peer: "192.0.2.7"}))
	fmt.Println(key.Key(&request{peer: "2001:db8::aaaa:1"}))
	fmt.Println(key.Key(&request{peer: "2001:db8::bbbb:2"}))
	// Output:
	// ip:192.0.2.7 true
	// ip:2001:db8::/64 true
	// ip:2001:db8::/64 true
}

func ExampleHeader() {
	key := keyfuncs.Header("X-Tenant")

	fmt.Println(key.Key(&request{headers: http.Header{"X-Tenant": {"42"}}}))
	fmt.Println(key.Key(&request{headers: http.Header{"X-Tenant": {"42", "43"}}}))
	fmt.Println(key.Kind())
	// Output:
	// header.x-tenant:42 true
	//  false
	// header.x-tenant
}

func ExampleCookie() {
	key := keyfuncs.Cookie("sid")

	fmt.Println(key.Key(&request{cookies: map[string]string{"sid": "c2Vzc2lvbg"}}))
	// Output: cookie.sid#ebs35JG9Edmt4Q8CAN2IyQ true
}

func ExampleAPIKey() {
	key := keyfuncs.APIKey("X-API-Key", "Authorization", "?api_key")

	fmt.Println(key.Key(&request{headers: http.Header{"X-Api-Key": {"s3cret"}}}))
	fmt.Println(key.Key(&request{headers: http.Header{"Authorization": {"Bearer s3cret"}}}))
	fmt.Println(key.Key(&request{query: url.Values{"api_key": {"s3cret"}}}))
	// Output:
	// apikey#HsHCa1DV08WNlYMYGvgHZg true
	// apikey#HsHCa1DV08WNlYMYGvgHZg true
	// apikey#HsHCa1DV08WNlYMYGvgHZg true
}

func ExampleUser() {
	key := keyfuncs.User("userID") // what authentication stored with c.Set("userID", …)

	fmt.Println(key.Key(&request{values: map[any]any{"userID": "alice"}}))
	fmt.Println(key.Key(&request{values: map[any]any{"userID": 42}}))
	fmt.Println(key.Key(&request{}))
	// Output:
	// user:alice true
	// user:42 true
	//  false
}

func ExampleRoute() {
	key := keyfuncs.Route()

	fmt.Println(key.Key(&request{path: "/users/7", route: "/users/:id"}))
	fmt.Println(key.Key(&request{path: "/wp-admin"}))
	// Output:
	// route:/users/:id true
	// route:unmatched true
}

func ExampleMethod() {
	key := keyfuncs.Method()

	fmt.Println(key.Key(&request{method: "POST"}))
	fmt.Println(key.Key(&request{method: "HEAD"}))
	fmt.Println(key.Key(&request{method: "BREW"}))
	// Output:
	// method:POST true
	// method:GET true
	// method:other true
}

func ExampleEveryone() {
	fmt.Println(keyfuncs.Everyone().Key(&request{}))
	// Output: all true
}

func ExampleJoin() {
	key := keyfuncs.Join(keyfuncs.User("userID"), keyfuncs.Route())

	fmt.Println(key.Key(&request{route: "/orders/:id", values: map[any]any{"userID": "alice"}}))
	fmt.Println(key.Kind())
	// Output:
	// user:alice|route:/orders/:id true
	// join(user,route)
}

func ExampleFirst() {
	key := keyfuncs.First(keyfuncs.User("userID"), keyfuncs.ClientIP())

	fmt.Println(key.Key(&request{peer: "192.0.2.7", values: map[any]any{"userID": "alice"}}))
	fmt.Println(key.Key(&request{peer: "192.0.2.7"}))
	// Output:
	// user:alice true
	// ip:192.0.2.7 true
}

func ExampleCustom() {
	key := keyfuncs.Custom("plan", planOfClaims)

	fmt.Println(key.Key(&request{values: map[any]any{"claims": claims{Plan: "free"}}}))
	fmt.Println(keyfuncs.Custom("Plan", planOfClaims).Err())
	// Output:
	// plan:free true
	// weblimit: keyfuncs.Custom: "Plan" is not a kind, want [a-z][a-z0-9.-]{0,31}
}

func ExampleEncode() {
	inRequests, _ := keyfuncs.User("userID").Key(&request{values: map[any]any{"userID": "alice"}})
	inJobs := keyfuncs.Encode("user", "alice")

	fmt.Println(inJobs, inJobs == inRequests)
	fmt.Println(keyfuncs.Encode("user", "{alice|bob}"))
	// Output:
	// user:alice true
	// user#cbTl-d1SWHbmhL8GpVR2qA
}

func ExampleAppendKey() {
	fmt.Printf("%s\n", keyfuncs.AppendKey(nil, "tenant:42"))
	fmt.Printf("%s\n", keyfuncs.AppendKey(nil, "tenant:{42}\r\n"))
	// Output:
	// tenant:42
	// key#EEobAvhdAOkht92CUBndZg
}

func ExampleFunc_Append() {
	key := keyfuncs.ClientIP()
	buf := make([]byte, 0, 256) // reused from request to request

	buf, ok := key.Append(append(buf[:0], "bucket/"...), &request{peer: "192.0.2.7"})
	fmt.Println(string(buf), ok)
	// Output: bucket/ip:192.0.2.7 true
}

func ExampleFunc_Err() {
	fmt.Println(keyfuncs.Header("bad name").Err())
	fmt.Println(keyfuncs.Join().Err())
	// Output:
	// weblimit: keyfuncs.Header: "bad name" is not a header name
	// weblimit: keyfuncs.Join: no keys
}
