package httpd

import (
	json "github.com/go-json-experiment/json/v1" // encoding/json of Go 1.27: what there is before needs twice the time
	"github.com/labstack/echo/v4"
)

// jsonSerializer is Echo's own, but for bodies that are in memory already.
type jsonSerializer struct{ echo.DefaultJSONSerializer }

// Deserialize decodes a JSON body. One that something before the handler has
// read to its end, and offers as Text, is decoded from there.
func (s jsonSerializer) Deserialize(c echo.Context, into any) error {
	if body, inMemory := c.Request().Body.(interface{ Text() []byte }); inMemory {
		return json.Unmarshal(body.Text(), into)
	}
	return s.DefaultJSONSerializer.Deserialize(c, into)
}
