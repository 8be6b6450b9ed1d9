package limittest

import (
	"bufio"
	"net"
	"net/http"
	"strings"
	"time"

	"github.com/weblimit/weblimit/internal/test/must"
)

// send sends the bytes of a request to the server at base, over its own connection, and
// returns the response.
func (e *env) send(base, request string) response {
	e.Helper()
	conn := must.Get(net.Dial("tcp", strings.TrimPrefix(base, "http://")))(e)
	defer conn.Close()
	must.OK(e, conn.SetDeadline(time.Now().Add(patience)))
	must.Do(conn.Write([]byte(request)))(e)
	method, _, _ := strings.Cut(request, " ")
	res, err := http.ReadResponse(bufio.NewReader(conn), &http.Request{Method: method})
	if err != nil {
		e.Fatalf("the response to %q: %v", request, err)
	}
	defer res.Body.Close()
	return e.read(res)
}

// plainRequest returns a GET request with these header lines.
func plainRequest(lines ...string) string {
	return "GET / HTTP/1.1\r\nHost: example.com\r\n" + joinLines(lines) + "\r\n"
}

// chunkedRequest returns a request with these lines in its trailer.
func chunkedRequest(body string, block []string, trailer ...string) string {
	chunk := "0\r\n"
	if body != "" {
		chunk = string("0123456789abcdef"[len(body)]) + "\r\n" + body + "\r\n0\r\n"
	}
	return "POST / HTTP/1.1\r\nHost: example.com\r\nTransfer-Encoding: chunked\r\n" +
		joinLines(block) + "\r\n" + chunk + joinLines(trailer) + "\r\n"
}

func joinLines(lines []string) string {
	var b strings.Builder
	for _, line := range lines {
		b.WriteString(line)
		b.WriteString("\r\n")
	}
	return b.String()
}
