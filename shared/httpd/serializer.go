package httpd

import (
	json "github.com/go-json-experiment/json/v1" // twice as fast as encoding/json before Go 1.27
	"github.com/labstack/echo/v4"
)

// jsonSerializer is Echo's serializer, except for bodies that are already in
// memory.
type jsonSerializer struct{ echo.DefaultJSONSerializer }

// Deserialize decodes a JSON body. If a middleware has read the body, it is
// decoded from the body's Text method.
func (s jsonSerializer) Deserialize(c echo.Context, into any) error {
	if body, inMemory := c.Request().Body.(interface{ Text() []byte }); inMemory {
		return json.Unmarshal(body.Text(), into)
	}
	return s.DefaultJSONSerializer.Deserialize(c, into)
}
