package limittest

import (
	"net/http"

	"github.com/weblimit/weblimit/core"
	"github.com/weblimit/weblimit/keyfuncs"
)

// languages are scenarios of denials in the client's language. Each adapter reads it
// from the request and names it in the response.
var languages = []scenario{
	{"a denial is in the language that the request accepts, whatever the lines it does so in", func(e *env) {
		l, err := core.New(core.Config{
			Store:   e.newStore(e),
			Limits:  []core.Limit{core.PerHour(1).By(keyfuncs.Everyone())},
			Timeout: patience,
			Details: map[string]func(core.Decision) string{
				"de": func(core.Decision) string { return "Zu viele Anfragen." },
				"fr": func(core.Decision) string { return "Trop de requêtes." },
			},
		})
		if err != nil {
			e.Fatal(err)
		}
		outer := http.Header{"Content-Language": {"nl"}, "Vary": {"Accept-Encoding"}}
		s := e.serve(App{Outer: outer, Layers: []Layer{{Limiter: l}}})
		e.passes("first", s.get("/"))
		for _, tt := range []struct {
			accept           []option
			language, detail string
		}{
			{[]option{with("Accept-Language", "fr")}, "fr", `"detail":"Trop de requêtes."`},
			{[]option{with("Accept-Language", "fr;q=0.3"), with("Accept-Language", "de-CH, en;q=0.1")}, "de", `"detail":"Zu viele Anfragen."`},
			{nil, "en", `"detail":"Rate limit exceeded.`},
		} {
			r := s.get("/", tt.accept...)
			e.denied("again", r)
			contains(e, "body", r.body, tt.detail)
			equal(e, "Content-Language", e.only(r, "Content-Language"), tt.language)
			contains(e, "Vary", join(r.header["Vary"]), "Accept-Encoding")
			contains(e, "Vary", join(r.header["Vary"]), "Accept-Language")
		}
	}},
	{"a denial in the only language there is does not vary", func(e *env) {
		s := e.serve(App{Layers: e.layer(core.PerHour(1).By(keyfuncs.Everyone()))})
		s.get("/")
		r := s.get("/", with("Accept-Language", "de"))
		e.denied("second", r)
		equal(e, "Content-Language", e.only(r, "Content-Language"), "")
		equal(e, "Vary", join(r.header["Vary"]), "")
	}},
}
