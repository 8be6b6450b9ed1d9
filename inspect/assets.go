package inspect

import (
	"bytes"
	"crypto/sha256"
	"embed"
	"encoding/base64"
	"net/http"
	"path"
	"time"
)

//go:embed page
var files embed.FS

// asset is a file of the page.
type asset struct {
	kind string
	etag string
	body []byte
}

// assets are the page's files by name. The page itself is "".
var assets = loadAssets()

var kinds = map[string]string{
	".html": "text/html; charset=utf-8",
	".css":  "text/css; charset=utf-8",
	".js":   "text/javascript; charset=utf-8",
	".svg":  "image/svg+xml",
}

func loadAssets() map[string]asset {
	all := make(map[string]asset)
	entries, err := files.ReadDir("page")
	if err != nil {
		panic(err) // can't happen: the files are part of the program
	}
	for _, entry := range entries {
		name := entry.Name()
		body, err := files.ReadFile("page/" + name)
		if err != nil {
			panic(err)
		}
		sum := sha256.Sum256(body)
		a := asset{kinds[path.Ext(name)], `"` + base64.RawURLEncoding.EncodeToString(sum[:12]) + `"`, body}
		if name == "index.html" {
			name = ""
		}
		all[name] = a
	}
	return all
}

func (a asset) serve(r *request) {
	h := r.ResponseWriter.Header()
	h.Set("Content-Type", a.kind)
	h.Set("Cache-Control", "private, no-cache")
	h.Set("ETag", a.etag)
	http.ServeContent(r.ResponseWriter, r.Request, "", time.Time{}, bytes.NewReader(a.body))
}
