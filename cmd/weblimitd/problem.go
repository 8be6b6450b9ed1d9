package main

import (
	"encoding/json"
	"net/http"

	"github.com/weblimit/weblimit/core"
)

// answerProblem writes an error by RFC 9457.
func answerProblem(w http.ResponseWriter, status int, detail string) {
	body, _ := json.Marshal(map[string]any{"title": http.StatusText(status), "status": status, "detail": detail}) // can't fail
	w.Header().Set("Content-Type", core.ProblemType)
	w.Header().Set("Cache-Control", "no-store")
	w.WriteHeader(status)
	_, _ = w.Write(append(body, '\n'))
}

// answerJSON writes an answer.
func answerJSON(w http.ResponseWriter, status int, v any) {
	body, err := json.MarshalIndent(v, "", "  ")
	if err != nil {
		answerProblem(w, http.StatusInternalServerError, "The answer can't be written as JSON.")
		return
	}
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Cache-Control", "no-store")
	w.Header().Set("X-Content-Type-Options", "nosniff")
	w.WriteHeader(status)
	_, _ = w.Write(append(body, '\n'))
}
