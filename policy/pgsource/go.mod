module github.com/weblimit/weblimit/policy/pgsource

go 1.25.0

require (
	github.com/jackc/pgx/v5 v5.9.2
	github.com/weblimit/weblimit v0.0.0
	github.com/weblimit/weblimit/policy v0.0.0
)

require (
	github.com/jackc/pgpassfile v1.0.0 // indirect
	github.com/jackc/pgservicefile v0.0.0-20240606120523-5a60cdf6a761 // indirect
	github.com/jackc/puddle/v2 v2.2.2 // indirect
	go.yaml.in/yaml/v3 v3.0.5 // indirect
	golang.org/x/sync v0.22.0 // indirect
	golang.org/x/text v0.40.0 // indirect
)

replace (
	github.com/weblimit/weblimit => ../..
	github.com/weblimit/weblimit/policy => ../
)
