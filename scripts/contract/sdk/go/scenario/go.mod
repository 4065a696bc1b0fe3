module scenario

go 1.26

require (
	github.com/google/uuid v1.6.0
	github.com/oapi-codegen/nullable v1.2.0
	github.com/oapi-codegen/runtime v1.8.0
	svc.example/sdk v0.0.0
)

require github.com/apapsch/go-jsonmerge/v2 v2.0.0 // indirect

replace svc.example/sdk => ../../../../../bin/sdk/go
