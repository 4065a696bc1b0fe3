var n=t=>t.split(`
`).map(i=>i.trim()).filter(Boolean);export{n as a};
