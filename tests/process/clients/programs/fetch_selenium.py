"""Opens each URL in Debian's Chromium, driven by Selenium over its chromedriver on localhost."""
import sys

from selenium import webdriver

options = webdriver.ChromeOptions()
options.binary_location = "/usr/bin/chromium"
for argument in [
    "--headless",
    # As root, and without a graphics card, it does not start otherwise.
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    # It has requests of its own, which would come by the proxy, too.
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--no-first-run",
]:
    options.add_argument(argument)
# Named, so that Selenium looks for no driver on the network.
service = webdriver.ChromeService(executable_path="/usr/bin/chromedriver")
driver = webdriver.Chrome(options=options, service=service)
try:
    for url in sys.argv[1:]:
        driver.get(url)
        status = driver.execute_script("return performance.getEntriesByType('navigation')[0].responseStatus")
        text = driver.execute_script("return document.body.innerText")
        print(f"HTTP/1.1 {status}\nCourtesy-Record: \n\n{text}")
finally:
    driver.quit()
