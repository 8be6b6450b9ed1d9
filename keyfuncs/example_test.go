package keyfuncs_test

import (
	"fmt"
	"net/http"
	"net/url"

	"github.com/weblimit/weblimit/keyfuncs"
)

// claims is what an app's authentication found in a token.
type claims struct{ Plan string }

func planOfClaims(r keyfuncs.Request) string {
	c, _ := r.Value("claims").(claims) // without them the key is missing
	return c.Plan
}

func ExampleClientIP() {
	key := keyfuncs.ClientIP()

	fmt.Println(key.Key(&request{peer: "192.0.2.7"}))
	fmt.Println(key.Key(&request{peer: "2001:db8::aaaa:1"}))
	fmt.Println(key.Key(&request{peer: "2001:db8::bbbb:2"}))
	// Output:
	// ip:192.0.2.7 present
	// ip:2001:db8::/64 present
	// ip:2001:db8::/64 present
}

func ExampleHeader() {
	key := keyfuncs.Header("X-Tenant")

	fmt.Println(key.Key(&request{headers: http.Header{"X-Tenant": {"42"}}}))
	fmt.Println(key.Key(&request{headers: http.Header{"X-Tenant": {"42", "43"}}}))
	fmt.Println(key.Kind())
	// Output:
	// header.x-tenant:42 present
	//  ambiguous
	// header.x-tenant
}

func ExampleCookie() {
	key := keyfuncs.Cookie("sid")

	fmt.Println(key.Key(&request{cookies: map[string][]string{"sid": {"c2Vzc2lvbg"}}}))
	// Output: cookie.sid#ebs35JG9Edmt4Q8CAN2IyQ present
}

func ExampleAPIKey() {
	key := keyfuncs.APIKey("X-API-Key", "Authorization", "?api_key")

	fmt.Println(key.Key(&request{headers: http.Header{"X-Api-Key": {"s3cret"}}}))
	fmt.Println(key.Key(&request{headers: http.Header{"Authorization": {"Bearer s3cret"}}}))
	fmt.Println(key.Key(&request{query: url.Values{"api_key": {"s3cret"}}}))
	fmt.Println(key.Key(&request{headers: http.Header{"X-Api-Key": {"s3cret"}, "Authorization": {"Bearer another"}}}))
	// Output:
	// apikey#HsHCa1DV08WNlYMYGvgHZg present
	// apikey#HsHCa1DV08WNlYMYGvgHZg present
	// apikey#HsHCa1DV08WNlYMYGvgHZg present
	//  ambiguous
}

func ExampleUser() {
	key := keyfuncs.User("userID") // what authentication stored with c.Set("userID", …)

	fmt.Println(key.Key(&request{values: map[any]any{"userID": "alice"}}))
	fmt.Println(key.Key(&request{values: map[any]any{"userID": 42}}))
	fmt.Println(key.Key(&request{}))
	// Output:
	// user:alice present
	// user:42 present
	//  missing
}

func ExampleRoute() {
	key := keyfuncs.Route()

	fmt.Println(key.Key(&request{path: "/users/7", route: "/users/:id"}))
	fmt.Println(key.Key(&request{path: "/wp-admin"}))
	// Output:
	// route:/users/:id present
	// route:unmatched present
}

func ExampleMethod() {
	key := keyfuncs.Method()

	fmt.Println(key.Key(&request{method: "POST"}))
	fmt.Println(key.Key(&request{method: "HEAD"}))
	fmt.Println(key.Key(&request{method: "BREW"}))
	// Output:
	// method:POST present
	// method:GET present
	// method:other present
}

func ExampleEveryone() {
	fmt.Println(keyfuncs.Everyone().Key(&request{}))
	// Output: all present
}

func ExampleJoin() {
	key := keyfuncs.Join(keyfuncs.User("userID"), keyfuncs.Route())

	fmt.Println(key.Key(&request{route: "/orders/:id", values: map[any]any{"userID": "alice"}}))
	fmt.Println(key.Kind())
	// Output:
	// user:alice|route:/orders/:id present
	// join(user,route)
}

func ExampleFirst() {
	key := keyfuncs.First(keyfuncs.User("userID"), keyfuncs.ClientIP())

	fmt.Println(key.Key(&request{peer: "192.0.2.7", values: map[any]any{"userID": "alice"}}))
	fmt.Println(key.Key(&request{peer: "192.0.2.7"}))
	// Output:
	// user:alice present
	// ip:192.0.2.7 present
}

func ExampleCustom() {
	key := keyfuncs.Custom("plan", planOfClaims)

	fmt.Println(key.Key(&request{values: map[any]any{"claims": claims{Plan: "free"}}}))
	fmt.Println(keyfuncs.Custom("Plan", planOfClaims).Err())
	// Output:
	// plan:free present
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

// The key of a limit by user and route, to reset it.
func ExampleEncodeJoin() {
	route := keyfuncs.Encode("route", "/orders/:id")
	fmt.Println(keyfuncs.EncodeJoin(keyfuncs.Encode("user", "alice"), route))
	// Output:
	// user:alice|route:/orders/:id
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

	buf, presence := key.Append(append(buf[:0], "bucket/"...), &request{peer: "192.0.2.7"})
	fmt.Println(string(buf), presence)
	// Output: bucket/ip:192.0.2.7 present
}

func ExampleFunc_Err() {
	fmt.Println(keyfuncs.Header("bad name").Err())
	fmt.Println(keyfuncs.Join().Err())
	// Output:
	// weblimit: keyfuncs.Header: "bad name" is not a header name
	// weblimit: keyfuncs.Join: no keys
}

func ExampleParam() {
	key, _ := keyfuncs.Join(keyfuncs.Route(), keyfuncs.Param("id")).Key(keyfuncs.Values{"route": "/items/:id", "id": "42"})
	fmt.Println(key)
	// Output: route:/items/:id|param.id:42
}

func ExampleQuery() {
	key, _ := keyfuncs.Query("q").Key(keyfuncs.Values{"q": "books"})
	fmt.Println(key)
	// Output: query.q:books
}

func ExampleHost() {
	key, _ := keyfuncs.Host().Key(keyfuncs.Values{"Host": "Shop.Example:8080"})
	fmt.Println(key)
	// Output: host:shop.example
}

func ExampleBasicAuthUser() {
	key, _ := keyfuncs.BasicAuthUser().Key(keyfuncs.Values{"Authorization": "Basic YWxpY2U6c2VjcmV0"})
	fmt.Println(key)
	// Output: basic:alice
}

func ExampleValues() {
	key := keyfuncs.First(keyfuncs.User("user"), keyfuncs.ClientIP())
	for _, v := range []keyfuncs.Values{{"user": 42}, {"ip": "192.0.2.1"}} {
		fmt.Println(key.Key(v))
	}
	// Output:
	// user:42 present
	// ip:192.0.2.1 present
}
