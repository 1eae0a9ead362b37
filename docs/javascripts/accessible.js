// Gaps of the theme, closed: a name for the search dialog, the keyboard for what scrolls sideways,
// a name of its own for each button that copies, and for parts of a page that are named as the site's.
addEventListener("load", () => {
  const mend = () => {
    document.querySelector(".md-search")?.setAttribute("aria-label", "Search")
    for (const wide of document.querySelectorAll("pre > code, .md-typeset__scrollwrap"))
      wide.tabIndex = 0
    document.querySelectorAll(".md-code__nav").forEach((bar, i) =>
      bar.setAttribute("aria-label", `Code ${i + 1}`))
    for (const part of document.querySelectorAll(".md-nav--secondary nav"))
      if (!part.ariaLabel.startsWith("Parts of "))
        part.ariaLabel = `Parts of ${part.ariaLabel}`
  }
  mend()
  new MutationObserver(mend).observe(document.body, { childList: true, subtree: true })
})
