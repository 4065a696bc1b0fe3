module scenario

go 1.26

require (
	svc.example/sdk/cloudapi v0.0.0
	svc.example/sdk/workerapi v0.0.0
)

replace (
	svc.example/sdk/cloudapi => ../../../../../bin/sdk/go-openapi-generator/cloudapi
	svc.example/sdk/workerapi => ../../../../../bin/sdk/go-openapi-generator/workerapi
)
