module github.com/weblimit/weblimit/internal/suites/majors

go 1.26.0

require (
	github.com/gofiber/fiber/v2 v2.52.15
	github.com/gofiber/fiber/v3 v3.3.0
	github.com/labstack/echo/v4 v4.16.0
	github.com/labstack/echo/v5 v5.2.1
	github.com/valyala/fasthttp v1.71.0
	github.com/weblimit/weblimit v0.0.0
	github.com/weblimit/weblimit/echo5limit v0.0.0
	github.com/weblimit/weblimit/echolimit v0.0.0
	github.com/weblimit/weblimit/fiber3limit v0.0.0
	github.com/weblimit/weblimit/fiberlimit v0.0.0
	github.com/weblimit/weblimit/internal/suites v0.0.0
)

require (
	github.com/andybalholm/brotli v1.2.1 // indirect
	github.com/bytedance/sonic v1.11.6 // indirect
	github.com/bytedance/sonic/loader v0.1.1 // indirect
	github.com/cloudwego/base64x v0.1.4 // indirect
	github.com/cloudwego/iasm v0.2.0 // indirect
	github.com/felixge/httpsnoop v1.0.4 // indirect
	github.com/gabriel-vasile/mimetype v1.4.3 // indirect
	github.com/gin-contrib/sse v0.1.0 // indirect
	github.com/gin-gonic/gin v1.10.1 // indirect
	github.com/go-chi/chi/v5 v5.3.0 // indirect
	github.com/go-playground/locales v0.14.1 // indirect
	github.com/go-playground/universal-translator v0.18.1 // indirect
	github.com/go-playground/validator/v10 v10.20.0 // indirect
	github.com/goccy/go-json v0.10.2 // indirect
	github.com/gofiber/schema v1.7.1 // indirect
	github.com/gofiber/utils/v2 v2.0.6 // indirect
	github.com/google/uuid v1.6.0 // indirect
	github.com/json-iterator/go v1.1.12 // indirect
	github.com/klauspost/compress v1.18.6 // indirect
	github.com/klauspost/cpuid/v2 v2.2.10 // indirect
	github.com/kr/pretty v0.3.1 // indirect
	github.com/labstack/gommon v0.5.0 // indirect
	github.com/leodido/go-urn v1.4.0 // indirect
	github.com/mattn/go-colorable v0.1.15 // indirect
	github.com/mattn/go-isatty v0.0.22 // indirect
	github.com/mattn/go-runewidth v0.0.16 // indirect
	github.com/modern-go/concurrent v0.0.0-20180306012644-bacd9c7ef1dd // indirect
	github.com/modern-go/reflect2 v1.0.2 // indirect
	github.com/pelletier/go-toml/v2 v2.2.2 // indirect
	github.com/philhofer/fwd v1.2.0 // indirect
	github.com/rivo/uniseg v0.2.0 // indirect
	github.com/rogpeppe/go-internal v1.14.1 // indirect
	github.com/tinylib/msgp v1.6.4 // indirect
	github.com/twitchyliquid64/golang-asm v0.15.1 // indirect
	github.com/ugorji/go/codec v1.2.12 // indirect
	github.com/valyala/bytebufferpool v1.0.0 // indirect
	github.com/valyala/fasttemplate v1.2.2 // indirect
	github.com/weblimit/weblimit/chilimit v0.0.0 // indirect
	github.com/weblimit/weblimit/ginlimit v0.0.0 // indirect
	golang.org/x/arch v0.8.0 // indirect
	golang.org/x/crypto v0.53.0 // indirect
	golang.org/x/net v0.56.0 // indirect
	golang.org/x/sys v0.46.0 // indirect
	golang.org/x/text v0.40.0 // indirect
	golang.org/x/time v0.15.0 // indirect
	google.golang.org/protobuf v1.36.11 // indirect
	gopkg.in/check.v1 v1.0.0-20201130134442-10cb98267c6c // indirect
	gopkg.in/yaml.v3 v3.0.1 // indirect
)

replace (
	github.com/weblimit/weblimit => ../../..
	github.com/weblimit/weblimit/chilimit => ../../../chilimit
	github.com/weblimit/weblimit/core/pgstore => ../../../core/pgstore
	github.com/weblimit/weblimit/echo5limit => ../../../echo5limit
	github.com/weblimit/weblimit/echolimit => ../../../echolimit
	github.com/weblimit/weblimit/fiber3limit => ../../../fiber3limit
	github.com/weblimit/weblimit/fiberlimit => ../../../fiberlimit
	github.com/weblimit/weblimit/ginlimit => ../../../ginlimit
	github.com/weblimit/weblimit/grpclimit => ../../../grpclimit
	github.com/weblimit/weblimit/internal/suites => ../
	github.com/weblimit/weblimit/metrics/otel => ../../../metrics/otel
	github.com/weblimit/weblimit/metrics/prometheus => ../../../metrics/prometheus
	github.com/weblimit/weblimit/policy => ../../../policy
	github.com/weblimit/weblimit/policy/pgsource => ../../../policy/pgsource
	github.com/weblimit/weblimit/quota => ../../../quota
	github.com/weblimit/weblimit/service => ../../../service
	github.com/weblimit/weblimit/service/envoy => ../../../service/envoy
)
