package llmlimit

import "strings"

// API is a provider's form of requests, answers and errors.
type API uint8

// The APIs. Programs that speak one of them are meant too, such as vLLM and Ollama for OpenAI.
const (
	// Unknown is a request of none of them. Nothing is read of it or of its answer: it costs its estimate.
	Unknown API = iota
	// OpenAI is chat completions, completions, responses and embeddings.
	OpenAI
	// Anthropic is messages.
	Anthropic
	// Gemini is generateContent and streamGenerateContent, of the Gemini API and of Vertex AI.
	Gemini
	// Bedrock is Amazon's converse, converse-stream, invoke and invoke-with-response-stream.
	Bedrock
)

var apiNames = [...]string{Unknown: "unknown", OpenAI: "openai", Anthropic: "anthropic", Gemini: "gemini", Bedrock: "bedrock"}

// String returns the name in lower case, such as "openai", for logs and metrics.
func (a API) String() string {
	if int(a) < len(apiNames) {
		return apiNames[a]
	}
	return apiNames[Unknown]
}

// APIOf returns the API that a path belongs to, whatever it begins with:
//
//	/v1/chat/completions, /v1/completions, /v1/responses, /v1/embeddings   OpenAI
//	/v1/messages                                                           Anthropic
//	…/models/{model}:generateContent, :streamGenerateContent               Gemini
//	/model/{model}/converse, converse-stream, invoke, …                    Bedrock
//
// All others are Unknown. path is escaped, as http.Request.URL.EscapedPath returns it.
func APIOf(path string) API {
	if api, _ := route(path); api != Unknown {
		return api
	}
	switch {
	case strings.HasSuffix(path, "/completions"), strings.HasSuffix(path, "/responses"), strings.HasSuffix(path, "/embeddings"):
		return OpenAI
	case strings.HasSuffix(path, "/messages"):
		return Anthropic
	}
	return Unknown
}

// route returns the API and the model, still escaped, of a path that names its model.
func route(path string) (api API, model string) {
	before, last, ok := cutLast(path)
	if !ok {
		return Unknown, ""
	}
	if model, method, ok := strings.Cut(last, ":"); ok && (method == "generateContent" || method == "streamGenerateContent") {
		if strings.HasSuffix(before, "/models") {
			return Gemini, model
		}
		return Unknown, ""
	}
	switch last {
	case "converse", "converse-stream", "invoke", "invoke-with-response-stream":
		if before, model, ok := cutLast(before); ok && strings.HasSuffix(before, "/model") {
			return Bedrock, model
		}
	}
	return Unknown, ""
}

// cutLast cuts the last segment off a path.
func cutLast(path string) (before, last string, ok bool) {
	i := strings.LastIndexByte(path, '/')
	if i < 0 {
		return "", "", false
	}
	return path[:i], path[i+1:], true
}
