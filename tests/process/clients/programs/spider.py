"""A spider that asks for the URLs in the setting SITE, and says in their order what it got."""
import scrapy


class Spider(scrapy.Spider):
    name = "four-pages"
    handle_httpstatus_list = [403]

    async def start(self):
        self.answers = {}
        for url in self.settings["SITE"].split():
            yield scrapy.Request(url)

    def parse(self, response):
        self.answers[response.url] = response

    def closed(self, reason):
        for url in self.settings["SITE"].split():
            answer = self.answers[url]
            record = (answer.headers.get("Courtesy-Record") or b"").decode()
            print(f"HTTP/1.1 {answer.status}\nCourtesy-Record: {record}\n\n{answer.text}")
