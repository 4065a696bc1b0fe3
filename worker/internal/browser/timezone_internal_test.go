package browser

import (
	"bufio"
	"fmt"
	"io"
	"testing"
	"testing/synctest"

	"github.com/browser-svc/svc/worker/internal/cdp"
)

func TestTimezonePage_RepeatsUnansweredCall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fromBrowser, out := io.Pipe()
		in, toBrowser := io.Pipe()
		conn := cdp.New(fromBrowser, toBrowser)
		defer conn.Close()
		go func() {
			requests := bufio.NewReader(in)
			_, _ = requests.ReadBytes(0)
			if _, err := requests.ReadBytes(0); err == nil {
				fmt.Fprint(out, `{"id":2,"result":{"result":{"value":"Asia/Tokyo"}}}`+"\x00")
			}
		}()
		if got, err := (timezonePage{conn: conn}).zone(t.Context()); got != "Asia/Tokyo" || err != nil {
			t.Errorf("got %q, %v", got, err)
		}
	})
}
