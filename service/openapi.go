package service

import (
	_ "embed"
	"net/http"
)

// openAPI describes the API. docs/service.openapi.json is a copy.
//
//go:embed openapi.json
var openAPI []byte

// serveOpenAPI serves the description.
func serveOpenAPI(w http.ResponseWriter, r *http.Request) {
	if r.Method != http.MethodGet && r.Method != http.MethodHead {
		w.Header().Set("Allow", "GET, HEAD")
		(&problem{status: http.StatusMethodNotAllowed, detail: "This path takes GET alone."}).write(w)
		return
	}
	w.Header()["Content-Type"] = jsonType
	_, _ = w.Write(openAPI)
}
