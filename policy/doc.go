// Package policy reads limits from files, so that they can change without a deployment and one file
// can serve many services:
//
//	set, err := policy.Load("limits.yaml")
//	…
//	limits := nethttp.With(core.Config{Store: store})
//	handler = limits.Policy(set, "api")(handler)
//
//	stop := set.Watch(ctx) // changes of the file, and SIGHUP
//	defer stop()
//
// A file is YAML or JSON of one format, whose JSON Schema is [Schema]:
//
//	# yaml-language-server: $schema=https://raw.githubusercontent.com/weblimit/weblimit/main/docs/policy.schema.json
//	version: "7"
//	policies:
//	  api:
//	    bypass:
//	      - routes: [GET /healthz]
//	    limits:
//	      client: {limit: 300/minute burst 50, by: ip}
//	    groups:
//	      sign-in:
//	        when: {routes: [POST /login]}
//	        limits:
//	          login: {limit: 5/15m log, by: ip}
//
// It says what the decorators of core.Limit and the fields of core.Config say, as far as that is data.
// Functions stay in the application, which gives them names in [Options]. Limits in code and limits in
// files go together, on one store and on one route.
//
// # Errors
//
// A file is refused as a whole, with everything that is wrong with it at once: file, line, column,
// where in the file, what was expected, and what was probably meant. Nothing that a file holds is
// ignored. YAML that readers disagree about is refused: merge keys, octal numbers, yes and no without
// quotes, duplicate keys, tags.
//
// # Changes
//
// A [Set] changes all or nothing; see [Set.Reload]. The version that decided is in
// core.Decision.Version, and so in logs and for observers. [Set.Rollback] goes back.
//
// # Security
//
// Who can write the file decides what is limited: it can exempt everybody, and lock everybody out. It
// can't run code, and it can read only what ${env:…} and ${file:…} name; what they hold is compared
// with tokens or hashes keys, and shown nowhere. Its size, its depth and the aliases in it are bounded,
// and so is the time that it takes to read.
package policy
