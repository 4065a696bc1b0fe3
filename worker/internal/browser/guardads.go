package browser

import (
	"context"

	"github.com/browser-svc/svc/shared/netrules"
)

// ads is the content of rules that the block list names.
const ads = "ads"

// decideAd returns the verdict of the block list about a request.
func (g *guard) decideAd(r pausedRequest) netrules.Verdict {
	v := g.policy().Request(r.Request.Method, ads)
	if !v.Denied || !g.blockList.blocks(r.Request.URL) {
		return netrules.Verdict{}
	}
	return v
}

// resolveAd answers the request for a document of a listed host, which is an ad in a frame but
// not in a tab.
func (g *guard) resolveAd(r pausedRequest) {
	ctx, cancel := context.WithTimeout(context.Background(), pausedTimeout)
	defer cancel()
	var target struct{ TargetInfo targetState }
	err := g.conn.Call(ctx, "", "Target.getTargetInfo", object{"targetId": r.FrameID}, &target)
	v := g.decideAd(r)
	if err == nil && target.TargetInfo.Type == "page" {
		v = netrules.Verdict{}
	}
	g.resolve(r, v)
}
