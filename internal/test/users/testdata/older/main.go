// An application that had its frameworks before it had limits.
package main

import (
	"net/http"

	"github.com/gin-gonic/gin"
	"github.com/go-chi/chi/v5"
)

func main() {
	root := chi.NewRouter()
	root.Mount("/", gin.New())
	_ = http.ListenAndServe("localhost:8080", root)
}
