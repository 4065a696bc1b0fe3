package webdriver

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"strings"
)

// maxObserved limits the answers that an observer reads, in bytes.
const maxObserved = 64 << 10

// observed is a command whose observer awaits the answer.
type observed struct {
	end   func(result json.RawMessage, problem string)
	finds bool // the answer has elements
}

// observe tells the observer of a command.
func (d *driverSession) observe(verb, path string, body []byte) observed {
	return observed{
		end:   d.running.Browser.Calls().Tap().Start(d.tapped, "WebDriver."+verb+" "+path, body),
		finds: strings.HasSuffix(path, "/element") || strings.HasSuffix(path, "/elements"),
	}
}

func (o observed) fail(err error) { o.end(nil, err.Error()) }

// read tells the observer of the answer, and returns its body.
func (o observed) read(response *http.Response) io.Reader {
	failed := response.StatusCode >= http.StatusBadRequest
	if !failed && !o.finds {
		o.end(nil, "")
		return response.Body
	}
	var start bytes.Buffer
	_, _ = io.Copy(&start, io.LimitReader(response.Body, maxObserved)) // whoever reads the rest gets the error
	var answer struct {
		Value struct{ Error, Message string }
	}
	problem := ""
	if failed {
		problem = response.Status
		if json.Unmarshal(start.Bytes(), &answer) == nil && answer.Value.Error != "" {
			message, _, _ := strings.Cut(answer.Value.Message, "\n")
			problem = answer.Value.Error + ": " + message
		}
	}
	o.end(start.Bytes(), problem)
	return io.MultiReader(&start, response.Body)
}
