package mutants

// files are mistakes with policy files.
var files = []Mutant{
	{File: "policy/read.go", Old: "if line, twice := lines[key.text]; twice {", New: "if line, twice := lines[key.text]; twice && line < 0 {", What: "a field that is there twice counts once", Tests: "policy"},
	{File: "policy/read.go", Old: "\tcase r.values > maxValues:\n", New: "\tcase false:\n", What: "aliases of aliases explode", Tests: "policy"},
	{File: "policy/read.go", Old: "\tif err := decoder.Decode(&second); !errors.Is(err, io.EOF) {\n", New: "\tif err := decoder.Decode(&second); false {\n", What: "the second document of a file is passed over", Tests: "policy"},
	{File: "policy/trial.go", Old: "\tcase written.get(\"remaining\") != nil && written.get(\"remaining\").integer() != remaining:\n", New: "\tcase false:\n", What: "a test of a policy passes whatever is left", Tests: "policy"},
}
