package policy

import "encoding/json"

// SchemaURL is where the schema of the format is published. An editor with a YAML language server
// completes and checks a file that begins with
//
//	# yaml-language-server: $schema=https://raw.githubusercontent.com/weblimit/weblimit/main/docs/policy.schema.json
const SchemaURL = "https://raw.githubusercontent.com/weblimit/weblimit/main/docs/policy.schema.json"

// Schema returns the JSON Schema (draft 2020-12) of policy files. A file that it refuses is refused by
// [Load], too. Load also knows what no schema can: what limits mean together, the names that the
// application has given, whether a secret can be read.
func Schema() []byte {
	defs := make(map[string]any)
	s := fileObject.schema(defs)
	s["$schema"] = "https://json-schema.org/draft/2020-12/schema"
	s["$id"] = SchemaURL
	s["title"] = "weblimit policies"
	s["$defs"] = defs
	text, err := json.MarshalIndent(s, "", "  ")
	if err != nil {
		panic(err) // can't happen: it is made of maps, texts and numbers
	}
	return append(text, '\n')
}
