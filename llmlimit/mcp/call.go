package mcp

import (
	"encoding/json"
	"net/http"

	"github.com/weblimit/weblimit/llmlimit/internal/peek"
	"github.com/weblimit/weblimit/llmlimit/internal/scan"
)

// maxName bounds the names of tools, in bytes, and the ID of a request.
const maxName = scan.MaxShort

const (
	fieldMethod uint8 = iota
	fieldName
	fieldBatched // a method in a batch
)

var requestTree = scan.NewTree(
	scan.Field{Path: "method", Kind: scan.Short, ID: fieldMethod},
	scan.Field{Path: "params.name", Kind: scan.Short, ID: fieldName},
	scan.Field{Path: "[].method", Kind: scan.Short, ID: fieldBatched})

// call is what a request calls. It implements scan.Sink.
type call struct {
	tool    string
	known   bool  // it is one of the configuration's
	doubt   bool  // which tool it calls
	calls   int64 // of tools
	method  string
	methods int
	names   int
	id      json.RawMessage // of the request, nil if there is none
}

// read reads a body.
func (c *call) read(b *peek.Body, header http.Header) {
	if b.Complete && len(b.Head) == 0 {
		return
	}
	encoding := header.Get("Content-Encoding")
	if !b.Complete || !json.Valid(b.Head) || encoding != "" && encoding != "identity" {
		c.doubt, c.calls = true, 1
		return
	}
	var s scan.Scanner
	s.Reset(requestTree, c)
	for p := b.Head; len(p) > 0; {
		n, _ := s.Feed(p)
		p = p[n:]
	}
	var request struct {
		ID json.RawMessage `json:"id"`
	}
	if json.Unmarshal(b.Head, &request) == nil && len(request.ID) <= maxName && len(request.ID) > 0 && request.ID[0] != '{' && request.ID[0] != '[' {
		c.id = request.ID
	}
	c.judge()
}

// judge decides which tool is called.
func (c *call) judge() {
	switch {
	case c.doubt || c.methods > 1 || c.names > 1:
		c.doubt, c.calls, c.tool = true, max(c.calls, 1), ""
	case c.method == "tools/call":
		c.calls, c.doubt = 1, c.names == 0
	default:
		c.tool = ""
	}
}

func (c *call) Short(id uint8, text []byte, whole bool) {
	switch id {
	case fieldMethod:
		c.methods++
		c.method = string(text)
		c.doubt = c.doubt || !whole && len(text) == 0 // an escape that we do not decode
	case fieldName:
		if c.names++; whole {
			c.tool = string(text)
		}
	case fieldBatched:
		c.doubt = true
		c.calls++
	}
}

func (c *call) Other(id uint8, _ byte) {
	c.doubt = c.doubt || id != fieldName // which other methods may have of another type
	if id == fieldName {
		c.names++
	}
}

func (c *call) Variant()                  { c.doubt = true }
func (c *call) Number(uint8, int64, bool) {}
func (c *call) Length(uint8, int64)       {}
func (c *call) Raw(uint8, []byte, bool)   {}
