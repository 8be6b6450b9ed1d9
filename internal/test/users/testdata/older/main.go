// An application that had its frameworks before it had limits.
package main

import (
	"net/http"

	"github.com/gin-gonic/gin"
	"github.com/go-chi/chi/v5"
	"github.com/gofiber/fiber/v2"
	"github.com/labstack/echo/v4"
)

func main() {
	root := chi.NewRouter()
	root.Mount("/gin", gin.New())
	root.Mount("/echo", echo.New())
	go func() { _ = fiber.New().Listen("localhost:8081") }()
	_ = http.ListenAndServe("localhost:8080", root)
}
