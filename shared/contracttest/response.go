package contracttest

import (
	"encoding/json"
	"mime"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"github.com/getkin/kin-openapi/openapi3"
)

// checkResponse returns the violations of the documented response with this status.
func (x *Exchange) checkResponse() {
	ref := x.match.operation.Responses.Status(x.response.StatusCode)
	if ref == nil {
		ref = x.match.operation.Responses.Default()
	}
	if ref == nil || ref.Value == nil {
		x.addFinding("the operation does not document the status %d", x.response.StatusCode)
		return
	}
	x.checkHeaders(ref.Value)
	x.checkBody(ref.Value)
}

func (x *Exchange) checkHeaders(documented *openapi3.Response) {
	x.checkUndocumentedHeaders(documented)
	for name, ref := range documented.Headers {
		values := x.response.Header.Values(name)
		if len(values) == 0 {
			if ref.Value.Required {
				x.addFinding("header %s is missing", name)
			}
			continue
		}
		if ref.Value.Schema == nil {
			continue
		}
		schema := ref.Value.Schema.Value
		for _, problem := range describe(schema.VisitJSON(headerValue(schema, values[0]), openapi3.MultiErrors(), formats())) {
			x.addFinding("header %s: %s", name, problem)
		}
	}
}

// headerValue parses a header as the type in its schema. If that fails, it returns the
// text, which the schema refuses.
func headerValue(schema *openapi3.Schema, text string) any {
	switch {
	case schema.Type.Is("integer"), schema.Type.Is("number"):
		if number, err := strconv.ParseFloat(text, 64); err == nil {
			return number
		}
	case schema.Type.Is("boolean"):
		if truth, err := strconv.ParseBool(text); err == nil {
			return truth
		}
	}
	return text
}

func (x *Exchange) checkBody(documented *openapi3.Response) {
	contentType := x.response.Header.Get("Content-Type")
	if len(documented.Content) == 0 {
		if contentType != "" || x.response.ContentLength > 0 {
			x.addFinding("the document has no body for this status, the answer has one of type %s", quoted(contentType))
		}
		return
	}
	if x.request.Method == http.MethodHead {
		return
	}
	mediaType, _, err := mime.ParseMediaType(contentType)
	if err != nil {
		mediaType = contentType
	}
	content := documented.Content.Get(mediaType)
	if content == nil {
		x.addFinding("the content type is %s, the document has %s", quoted(contentType), strings.Join(mediaTypes(documented), ", "))
		return
	}
	if !isJSON(x.response.Header) || content.Schema == nil {
		return
	}
	var value any
	if err := json.Unmarshal(x.responseBody, &value); err != nil {
		x.addFinding("the body is not JSON: %v", err)
		return
	}
	for _, violation := range Violations(content.Schema.Value, value, openapi3.VisitAsResponse()) {
		x.addFinding("body: %s", violation)
	}
	x.checkSuccess(value)
}

// checkSuccess compares the member success with the status (specification 2.1). A
// refused authorization is a success with status 402 (specification 4.2). Raw
// operations have no envelope.
func (x *Exchange) checkSuccess(value any) {
	if x.match.operation.Extensions["x-raw"] == true || x.response.StatusCode == http.StatusPaymentRequired {
		return
	}
	envelope, _ := value.(map[string]any)
	x.checkDetails(envelope)
	if success, isBool := envelope["success"].(bool); !isBool || success != x.accepted() {
		x.addFinding("body: success is %v with status %d", envelope["success"], x.response.StatusCode)
	}
}

// checkDetails requires the details of a VALIDATION_ERROR (specification 7.1).
func (x *Exchange) checkDetails(envelope map[string]any) {
	failure, _ := envelope["error"].(map[string]any)
	if details, _ := failure["details"].([]any); failure["code"] == "VALIDATION_ERROR" && len(details) == 0 {
		x.addFinding("body: a VALIDATION_ERROR has no details")
	}
}

// checkFailureEnvelope checks an answer outside of all operations. It must be the
// failure envelope, except for the text answers of the per-browser routes
// (specification 5.5).
func (x *Exchange) checkFailureEnvelope() {
	if strings.HasPrefix(x.response.Header.Get("Content-Type"), "text/plain") && strings.Contains(x.request.URL.Path, "/browsers/") {
		return
	}
	var envelope struct {
		Success *bool `json:"success"`
		Error   struct {
			Code    string `json:"code"`
			Message string `json:"message"`
			Details []any  `json:"details"`
		} `json:"error"`
	}
	err := json.Unmarshal(x.responseBody, &envelope)
	if err != nil || envelope.Success == nil || *envelope.Success || envelope.Error.Code == "" || envelope.Error.Message == "" {
		x.addFinding("the answer is not the failure envelope")
	}
	if envelope.Error.Code == "VALIDATION_ERROR" && len(envelope.Error.Details) == 0 {
		x.addFinding("body: a VALIDATION_ERROR has no details")
	}
	if x.response.StatusCode == http.StatusMethodNotAllowed && x.response.Header.Get("Allow") == "" {
		x.addFinding("header Allow is missing")
	}
}

func mediaTypes(documented *openapi3.Response) []string {
	var names []string
	for name := range documented.Content {
		names = append(names, quoted(name))
	}
	slices.Sort(names)
	return names
}

func quoted(text string) string { return strconv.Quote(text) }
