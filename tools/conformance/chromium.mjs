// The browser of the tests. No page of ours draws in 3D, which without a graphics card takes half of all the time that
// the browser takes.
import chromium from "@sparticuz/chromium";

chromium.setGraphicsMode = false;
export default chromium;
